"""Graph deltas, contract ``ankka.graph-delta.v1``: what a streamlet writes for a sink that merges a graph.

A delta is the whole state of one element of a graph at a version: a node, an edge, or a tombstone, which marks one of
them deleted. Its record's key is the element's, ``node:ID`` or ``edge:ID``, since a compacted topic keeps the last
record of each key and a sink refuses a delta under another one. ``GraphDeltaOutlet`` therefore takes no key::

    class Carts(Streamlet):
        name = "carts"
        inlet = JsonInlet("in", schema_name="cart.v1")
        deltas = GraphDeltaOutlet("deltas")

        def process_record(self, record, ctx):
            cart = json.loads(record.value)
            return self.deltas.node(record, id=f"cart:{cart['id']}", version=cart["version"], labels=["Cart"])

What a sink would refuse raises ValueError here, so that the mistake fails the batch of the streamlet that made it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import json
from .ports import JsonOutlet
from .records import Emit, Record

__all__ = ["SCHEMA_NAME", "Delta", "GraphDeltaOutlet", "PropertyValue", "edge_key", "node_key", "read"]

SCHEMA_NAME = "ankka.graph-delta.v1"
"""The schema of the contract."""

_Scalar = str | int | float | bool
_List = list[str] | list[int] | list[float] | list[bool]
_Tuple = tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]
PropertyValue = _Scalar | _List | _Tuple
"""What a property may be: a text, a number, a flag, or several of one of these."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_SINK = ("id", "_version", "_deleted")
_INT64_END = 1 << 63  # the first number beyond 64 bits; a range would be searched one by one for an enum's member


def node_key(id: str) -> bytes:
    """The key of every delta of a node: ``node:`` and its id, whatever that holds."""
    return b"node:" + id.encode()


def edge_key(id: str) -> bytes:
    """The key of every delta of an edge: ``edge:`` and its id. Nodes and edges may have the same ids."""
    return b"edge:" + id.encode()


@dataclass(frozen=True)
class Delta:
    """A delta, as ``read`` gives it.

    ``kind`` is ``node``, ``edge`` or ``tombstone``; ``element`` is what it is about, ``node`` or ``edge``. ``type``,
    ``from_id`` and ``to_id`` are those of an edge, or of the edge that a tombstone marks; otherwise None.
    """

    kind: str
    element: str
    id: str
    version: int
    labels: tuple[str, ...] = ()
    type: str | None = None
    from_id: str | None = None
    to_id: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    key: bytes = b""


class GraphDeltaOutlet(JsonOutlet):
    """An outlet of graph deltas.

    Each method makes the emit of one delta. ``record`` is the one that it was derived from, whose headers, offset and
    timestamp it takes over (but not its key), or None. ``version`` is a whole number from 0 that fits 64 bits and
    rises with the history of the element's source. Raises ValueError for what a sink would refuse.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, schema_name=SCHEMA_NAME)

    def node(
        self,
        record: Record | None,
        *,
        id: str,
        version: int,
        labels: Iterable[str] = (),
        properties: Mapping[str, PropertyValue] | None = None,
    ) -> Emit:
        """A node's whole state: it has these labels and properties and no others."""
        body = {"kind": "node", **_head(id, version), "labels": _labels(labels), "properties": _properties(properties)}
        return self.emit(record, value=json.dumps(body), key=node_key(id))

    def edge(
        self,
        record: Record | None,
        *,
        id: str,
        version: int,
        type: str,
        from_id: str,
        to_id: str,
        properties: Mapping[str, PropertyValue] | None = None,
    ) -> Emit:
        """An edge's whole state. ``from_id`` and ``to_id`` are ids of nodes, which need not be there yet."""
        ends = _ends("from_id", "to_id", type, from_id, to_id)
        body = {"kind": "edge", **_head(id, version), **ends, "properties": _properties(properties)}
        return self.emit(record, value=json.dumps(body), key=edge_key(id))

    def tombstone_node(self, record: Record | None, *, id: str, version: int) -> Emit:
        """Marks a node deleted; an older delta that comes late does not bring it back."""
        body = {"kind": "tombstone", "element": "node", **_head(id, version)}
        return self.emit(record, value=json.dumps(body), key=node_key(id))

    def tombstone_edge(
        self, record: Record | None, *, id: str, version: int, type: str, from_id: str, to_id: str
    ) -> Emit:
        """Marks an edge deleted. Its type and ends say where it is, so that nobody has to search the graph."""
        ends = _ends("from_id", "to_id", type, from_id, to_id)
        body = {"kind": "tombstone", "element": "edge", **_head(id, version), **ends}
        return self.emit(record, value=json.dumps(body), key=edge_key(id))


def read(record: Record) -> Delta:
    """The delta in a record, for a streamlet's tests. Raises ValueError for a record that a sink would refuse."""
    body = _object(record.value)
    kind, element = body.get("kind"), body.get("element")
    if not isinstance(kind, str):
        raise ValueError("kind missing")
    if kind not in ("node", "edge", "tombstone"):
        raise ValueError(f"unknown kind '{kind}'")
    if kind != "tombstone":
        element = kind
    if element not in ("node", "edge"):
        raise ValueError("tombstone needs element 'node' or 'edge'")
    version = body.get("version")
    if isinstance(version, float) and version.is_integer():
        version = int(version)  # JSON has one kind of number, and 1e3 is a whole one
    made: dict[str, Any] = _head(body.get("id"), version)
    if element == "edge":
        ends = _ends("from", "to", body.get("type"), body.get("from"), body.get("to"))
        made |= {"type": ends["type"], "from_id": ends["from"], "to_id": ends["to"]}
    if kind == "node":
        made["labels"] = tuple(_labels(body.get("labels", ())))
    if kind != "tombstone":
        made["properties"] = _properties(body.get("properties", {}))
    key = (node_key if element == "node" else edge_key)(made["id"])
    _same_key(record.key, key)
    return Delta(kind=kind, element=element, key=key, **made)


def _object(value: bytes | None) -> dict[str, Any]:
    try:
        body = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON object: {error}") from error
    if not isinstance(body, dict):
        raise ValueError(f"not a JSON object, but a {type(body).__name__}")
    return body


def _same_key(found: bytes | None, due: bytes) -> None:
    if found is None:
        raise ValueError(f"no key; this delta's element key is '{due.decode()}'")
    if found != due:
        raise ValueError(f"key '{found.decode(errors='replace')}' is not this delta's element key '{due.decode()}'")


def _head(id: object, version: object) -> dict[str, Any]:
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < _INT64_END:
        raise ValueError(f"version must be a whole number from 0 to 2^63 - 1, not {version!r}")
    return {"id": _text("id", id), "version": version}


def _ends(from_name: str, to_name: str, type: object, from_id: object, to_id: object) -> dict[str, str]:
    return {"type": _identifier("type", type), "from": _text(from_name, from_id), "to": _text(to_name, to_id)}


def _text(what: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a text that is not empty, not {value!r}")
    return value


def _identifier(what: str, value: object) -> str:
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise ValueError(f"{what} must match [A-Za-z_][A-Za-z0-9_]*, not {value!r}")
    return value


def _labels(labels: object) -> list[str]:
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise ValueError(f"labels must be several identifiers, not {labels!r}")
    return [_identifier("each of labels", label) for label in labels]


def _properties(properties: object) -> dict[str, Any]:
    if properties is None:
        return {}
    if not isinstance(properties, Mapping):
        raise ValueError(f"properties must be a mapping, not {properties!r}")
    return {_property_name(name): _property(name, value) for name, value in properties.items()}


def _property_name(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"a property name must be a text, not {name!r}")
    if name in _OF_THE_SINK:
        raise ValueError(f"property '{name}' is reserved: the sink sets it itself")
    return name


def _property(name: str, value: object) -> object:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    kinds = {_kind(each) for each in values}
    if len(kinds) != 1 or None in kinds:
        raise ValueError(
            f"property '{name}' must be a text, a finite number of 64 bits, a flag or several of one of these, "
            f"not {value!r}"
        )
    return values if isinstance(value, (list, tuple)) else value


_KINDS: dict[type, Callable[[Any], str | None]] = {
    bool: lambda _: "flag",
    str: lambda _: "text",
    int: lambda n: "integer" if -_INT64_END <= n < _INT64_END else None,
    # JSON has one kind of number: 2.0 is read as the integer that it is, so [1.5, 2.0] holds two kinds.
    float: lambda x: _KINDS[int](int(x)) if x.is_integer() else _finite(x),
}


def _finite(x: float) -> str | None:
    return "decimal" if math.isfinite(x) else None


def _kind(value: object) -> str | None:
    """What a sink takes a value for; None for what it refuses."""
    for base in type(value).__mro__:  # of a str's or an int's subclass, an enum's say, what it is written as
        if base in _KINDS:
            return _KINDS[base](value)
    return None
