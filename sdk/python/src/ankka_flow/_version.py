"""The versions of this package and of the protocol it speaks."""

__version__ = "0.1.0+stdio"
"""``+stdio`` tells it from the package of the same name whose link is gRPC. A test compares it with pyproject.toml."""

PROTOCOL_VERSION = "1.0"
"""The protocol version this package speaks, answered whatever the supervisor was told."""
