"""The Python SDK of ankka-flow: write a streamlet, and ``ankka-flow run`` gives it its records.

Importing this package in a program that ankka-flow launched takes stdin and stdout for the protocol: from then on
``print`` goes to the log.
"""

from . import _stdio

_stdio.take_over()  # before anything else is imported: an import may print

from . import descriptor, errors, graph, json, parameters, ports, records  # noqa: E402
from ._version import PROTOCOL_VERSION, __version__  # noqa: E402
from .errors import (  # noqa: E402
    BatchError,
    DeadLetter,
    DecodeError,
    Fatal,
    KilledTheProcess,
    NullValueError,
    ProtocolError,
    RecordTooLargeError,
    Retriable,
    Skip,
    UndeclaredOutletError,
)
from .graph import GraphDeltaOutlet  # noqa: E402
from .parameters import (  # noqa: E402
    BooleanParameter,
    Config,
    DoubleParameter,
    DurationParameter,
    IntegerParameter,
    MemorySizeParameter,
    Parameter,
    StringParameter,
)
from .policy import ErrorPolicy, Limit  # noqa: E402
from .ports import DeadLetterOutlet, JsonInlet, JsonOutlet  # noqa: E402
from .records import Batch, Emit, Record  # noqa: E402
from .server import Server, serve  # noqa: E402
from .streamlet import Context, Streamlet  # noqa: E402

__all__ = [
    "PROTOCOL_VERSION",
    "Batch",
    "BatchError",
    "BooleanParameter",
    "Config",
    "Context",
    "DeadLetter",
    "DeadLetterOutlet",
    "DecodeError",
    "DoubleParameter",
    "DurationParameter",
    "Emit",
    "ErrorPolicy",
    "Fatal",
    "GraphDeltaOutlet",
    "IntegerParameter",
    "JsonInlet",
    "JsonOutlet",
    "KilledTheProcess",
    "Limit",
    "MemorySizeParameter",
    "NullValueError",
    "Parameter",
    "ProtocolError",
    "Record",
    "RecordTooLargeError",
    "Retriable",
    "Server",
    "Skip",
    "Streamlet",
    "StringParameter",
    "UndeclaredOutletError",
    "__version__",
    "descriptor",
    "errors",
    "graph",
    "json",
    "parameters",
    "ports",
    "records",
    "serve",
]
