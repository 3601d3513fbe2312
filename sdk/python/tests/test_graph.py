"""Graph deltas: what is written, under which key, and what is refused. The contract is ``ankka.graph-delta.v1``."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ankka_flow import Batch, Emit, GraphDeltaOutlet, JsonInlet, JsonOutlet, Record, Streamlet, descriptor, graph, json
from ankka_flow.testkit import Harness

OUT = GraphDeltaOutlet("deltas")
EDGE: dict[str, Any] = {"type": "KNOWS", "from_id": "a", "to_id": "b"}
IN_EDGE = {"type": "KNOWS", "from": "a", "to": "b"}
BIG = (1 << 63) - 1


def node(**more: Any) -> Emit:
    return OUT.node(None, **{"id": "n", "version": 1, **more})


def edge(**more: Any) -> Emit:
    return OUT.edge(None, **{"id": "e", "version": 1, **EDGE, **more})


@pytest.mark.parametrize(
    ("emit", "key", "body"),
    [
        (node(), "node:n", {"kind": "node", "id": "n", "version": 1, "labels": [], "properties": {}}),
        (
            node(id="cart:ž:1", version=BIG, labels=("Cart", "_X9"), properties={"a": "ů", "c": 0.25, "d": True}),
            "node:cart:ž:1",
            {"kind": "node", "id": "cart:ž:1", "version": BIG, "labels": ["Cart", "_X9"],
             "properties": {"a": "ů", "c": 0.25, "d": True}},
        ),
        (
            node(version=0, properties={"min": -BIG - 1, "max": BIG, "none": "", "tags": ["a"], "sizes": (1, 2.0)}),
            "node:n",
            {"kind": "node", "id": "n", "version": 0, "labels": [],
             "properties": {"min": -BIG - 1, "max": BIG, "none": "", "tags": ["a"], "sizes": [1, 2.0]}},
        ),
        (edge(), "edge:e", {"kind": "edge", "id": "e", "version": 1, **IN_EDGE, "properties": {}}),
        (
            edge(id="n", properties={"since": [1.5, 2.5], "flags": [True, False]}),
            "edge:n",
            {"kind": "edge", "id": "n", "version": 1, **IN_EDGE,
             "properties": {"since": [1.5, 2.5], "flags": [True, False]}},
        ),
        (
            OUT.tombstone_node(None, id="n", version=2),
            "node:n",
            {"kind": "tombstone", "element": "node", "id": "n", "version": 2},
        ),
        (
            OUT.tombstone_edge(None, id="n", version=2, **EDGE),
            "edge:n",
            {"kind": "tombstone", "element": "edge", "id": "n", "version": 2, **IN_EDGE},
        ),
    ],
)  # fmt: skip
def test_a_delta_is_its_elements_state_under_its_elements_key(emit: Emit, key: str, body: dict[str, Any]) -> None:
    record = emit.record
    assert (emit.outlet, record.key, record.headers) == ("deltas", key.encode(), [])
    assert json.loads(record.value) == body
    made = graph.read(record)
    assert (made.kind, made.id, made.version, made.key) == (body["kind"], body["id"], body["version"], record.key)
    assert made.element == key.partition(":")[0]
    assert (made.type, made.from_id, made.to_id) == (body.get("type"), body.get("from"), body.get("to"))
    assert (list(made.labels), made.properties) == (body.get("labels", []), body.get("properties", {}))


def test_the_keys() -> None:
    assert (graph.node_key("a:b"), graph.edge_key("ů")) == (b"node:a:b", "edge:ů".encode())


@pytest.mark.parametrize("method", [OUT.node, OUT.edge, OUT.tombstone_node, OUT.tombstone_edge])
def test_nobody_chooses_a_key(method: Callable[..., Emit]) -> None:
    assert "key" not in inspect.signature(method).parameters
    with pytest.raises(TypeError, match="key"):
        method(None, id="n", version=1, key=b"k")


BAD_FIELDS = [
    *[({"id": value}, "id must be") for value in ("", None, 7, b"n")],
    *[({"version": value}, "version must be") for value in (-1, BIG + 1, 1.0, "1", True, None)],
]
BAD_PROPERTIES: list[Any] = [
    [("a", 1)], {1: "x"}, {"id": "x"}, {"_version": 1}, {"_deleted": True}, {"p": None}, {"p": {}}, {"p": []},
    {"p": ()}, {"p": [1, "x"]}, {"p": [1, 1.5]}, {"p": [1.5, 2.0]}, {"p": [True, 1]}, {"p": [[1]]}, {"p": [None]},
    {"p": BIG + 1}, {"p": -BIG - 2}, {"p": float("nan")}, {"p": float("inf")}, {"p": 1e300}, {"p": b"x"}, {"p": {1}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "says"),
    [
        *BAD_FIELDS,
        *[({"labels": value}, "labels") for value in ("Cart", b"Cart", 5, None, [""], ["1st"], ["a b"], [1], ["ž"])],
        *[({"properties": value}, "propert(y|ies)") for value in BAD_PROPERTIES],
    ],
)
def test_what_a_sink_refuses_is_refused_of_a_node(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        node(**more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        *BAD_FIELDS,
        *[({"type": value}, "type must") for value in ("", "A B", None, "a\n", "ž")],
        *[({end: value}, end) for end in ("from_id", "to_id") for value in ("", None, 1)],
    ],
)
def test_what_a_sink_refuses_is_refused_of_an_edge_and_of_its_tombstone(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        edge(**more)
    with pytest.raises(ValueError, match=says):
        OUT.tombstone_edge(None, **{"id": "e", "version": 1, **EDGE, **more})
    if more in [fields for fields, _ in BAD_FIELDS]:
        with pytest.raises(ValueError, match=says):
            OUT.tombstone_node(None, **{"id": "n", "version": 1, **more})


def test_subclasses_of_what_is_allowed_are_allowed() -> None:
    class Level(enum.IntEnum):
        HIGH = 3

    class Name(str):
        __slots__ = ()

    body = json.loads(node(version=Level.HIGH, properties={"level": Level.HIGH, "name": Name("x")}).record.value)
    assert (body["version"], body["properties"]) == (3, {"level": 3, "name": "x"})


def test_read_refuses_another_key() -> None:
    value = node(id="cart:1").record.value
    for key, says in (
        (None, "no key; this delta's element key is 'node:cart:1'"),
        (b"cart:1", "key 'cart:1' is not this delta's element key 'node:cart:1'"),
        (b"edge:cart:1", "key 'edge:cart:1' is not"),
        (b"\xff", "key '\ufffd' is not"),
    ):
        with pytest.raises(ValueError, match=says):
            graph.read(Record(value, key))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "not a JSON object"),
        (b"", "not a JSON object"),
        (b"{", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"[1]", "not a JSON object, but a list"),
        (b'{"id":"n","version":1}', "kind missing"),
        (b'{"kind":1,"id":"n","version":1}', "kind missing"),
        (b'{"kind":"nod","id":"n","version":1}', "unknown kind 'nod'"),
        (b'{"kind":"tombstone","id":"n","version":1}', "tombstone needs element 'node' or 'edge'"),
        (b'{"kind":"tombstone","element":"n","id":"n","version":1}', "tombstone needs element"),
        (b'{"kind":"node","id":"n"}', "version must"),
        (b'{"kind":"node","id":"n","version":1.5}', "version must"),
        (b'{"kind":"node","id":"n","version":NaN}', "version must"),
        (b'{"kind":"node","version":1}', "id must"),
        (b'{"kind":"node","id":"n","version":1,"labels":null}', "labels"),
        (b'{"kind":"node","id":"n","version":1,"properties":[]}', "properties"),
        (b'{"kind":"node","id":"n","version":1,"properties":{"a":null}}', "property 'a'"),
        (b'{"kind":"edge","id":"n","version":1,"from":"a","to":"b"}', "type must"),
        (b'{"kind":"edge","id":"n","version":1,"type":"T","to":"b"}', "from must"),
        (b'{"kind":"tombstone","element":"edge","id":"n","version":1,"type":"T","from":"a"}', "to must"),
    ],
)
def test_read_refuses_what_is_no_delta(value: bytes | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        graph.read(Record(value, b"node:n"))


def test_read_takes_any_whole_number_and_ignores_what_it_does_not_know() -> None:
    value = b'{"kind":"node","id":"n","version":1e3,"more":[1],"properties":null}'
    assert graph.read(Record(value, b"node:n")) == graph.Delta("node", "node", "n", 1000, key=b"node:n")


class Mapper(Streamlet):
    name = "mapper"
    inlet = JsonInlet("in", schema_name="s")
    deltas = GraphDeltaOutlet("deltas")

    def process(self, batch: Batch) -> Any:
        for record in batch:
            yield self.deltas.node(record, id=(record.value or b"").decode(), version=record.offset)


class Plain(Mapper):
    deltas = JsonOutlet("deltas", schema_name="ankka.graph-delta.v1")  # type: ignore[assignment]


def test_the_outlet_declares_its_contract() -> None:
    assert descriptor.spec_for(Mapper) == descriptor.spec_for(Plain)
    assert OUT.schema_name == graph.SCHEMA_NAME == "ankka.graph-delta.v1"


def test_a_delta_keeps_its_records_headers_and_place_but_not_its_key() -> None:
    h = Harness(Mapper())
    h.inlet("in").put(key=b"k", value=b"a", headers=[("h", b"1")])
    h.inlet("in").put(key=b"k", value=b"")  # no id: the batch fails, and nothing of it is written
    h.run(max_records=1)
    [record] = h.outlet("deltas").records
    assert (record.key, record.headers, record.offset) == (b"node:a", [("h", b"1")], 0)
    assert h.skipped == [] and "id must be" in str(h.failures[0].error)
