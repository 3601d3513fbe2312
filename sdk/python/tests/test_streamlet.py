"""Declarations: what is found, what is refused, and the public names."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import ankka_flow
from ankka_flow import Batch, Emit, IntegerParameter, JsonInlet, JsonOutlet, Record, Streamlet, serve, testkit
from ankka_flow.records import records_of

PUBLIC = """
PROTOCOL_VERSION Batch BatchError BooleanParameter Config Context DeadLetter DeadLetterOutlet DecodeError
DoubleParameter DurationParameter Emit ErrorPolicy Fatal GraphDeltaOutlet IntegerParameter JsonInlet JsonOutlet
KilledTheProcess Limit MemorySizeParameter NullValueError Parameter ProtocolError Record RecordTooLargeError
Retriable Server Skip Streamlet StringParameter UndeclaredOutletError __version__ descriptor errors graph json
parameters ports records serve
"""


def test_public_names() -> None:
    assert sorted(ankka_flow.__all__) == sorted(PUBLIC.split())
    for name in ankka_flow.__all__:
        thing = getattr(ankka_flow, name)
        assert thing.__doc__, name
    assert set(testkit.__all__) == {
        *("FakeClock", "Failure", "Harness", "InletQueue", "OutletRecords", "Retry", "StillHeld", "hash_partitioner")
    }
    assert ankka_flow.PROTOCOL_VERSION == "1.0"
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', project, re.M)[1] == ankka_flow.__version__  # type: ignore[index]


class Base(Streamlet):
    name = "base"
    inlet = JsonInlet("in", schema_name="a")
    out = JsonOutlet("out", schema_name="a")
    limit = IntegerParameter("limit", default=1)

    def process(self, batch: Batch) -> Any: ...


def test_ports_and_parameters_are_found_and_inherited() -> None:
    class Derived(Base):
        second = JsonInlet("second", schema_name="b")
        out = JsonOutlet("renamed", schema_name="a")
        limit = None  # type: ignore[assignment]

    assert [port.name for port in Derived.inlets()] == ["in", "second"]
    assert [port.name for port in Derived.outlets()] == ["renamed"]
    assert Derived.parameters() == [] and [p.key for p in Base.parameters()] == ["limit"]
    assert Derived.inlet.format == "json" and Derived.inlet.schema_name == "a"


def test_a_name_used_twice() -> None:
    for attribute, value in (
        ("again", JsonInlet("in", schema_name="b")),
        ("again", JsonOutlet("in", schema_name="b")),
        ("again", IntegerParameter("limit")),
    ):
        with pytest.raises(TypeError, match="more than once"):
            type("Twice", (Base,), {attribute: value})


def test_bad_ports() -> None:
    for name in ("", "In", "1n", "a_b", "a" * 64, "a\n"):
        with pytest.raises(ValueError, match="port name"):
            JsonInlet(name, schema_name="s")
    with pytest.raises(ValueError, match="schema_name"):
        JsonInlet("in", schema_name="")
    assert JsonInlet("a" * 63, schema_name="s").name == "a" * 63


def test_one_handler() -> None:
    with pytest.raises(TypeError, match="both"):
        type("Both", (Base,), {"process": lambda s, b: None, "process_record": lambda s, r, c: None})
    with pytest.raises(TypeError, match="neither"):
        type("None_", (Streamlet,), {"name": "n"})()
    ByRecord = type("ByRecord", (Base,), {"process_record": lambda s, r, c: s.out.emit(r)})
    h = testkit.Harness(ByRecord())
    h.inlet("in").put(value=b"v")
    h.run()
    assert [r.value for r in h.outlet("out").records] == [b"v"]


def test_config_without_super_init() -> None:
    class Own(Base):
        def __init__(self, extra: int) -> None:
            self.extra = extra

    own = Own(5)
    assert own.config[own.limit] == 1
    own.configure({"limit": "7"})
    assert own.config[own.limit] == 7 and own.extra == 5


def test_serve_names_every_problem_first() -> None:
    class Bad(Base):
        name = "Bad name"

    with pytest.raises(ValueError, match="'Bad name'"):
        serve(Bad())
    with pytest.raises(ValueError, match="workers"):
        serve(Base(), workers=0)


def arrived() -> Record:
    return records_of([(7, 5, b"k", b"v", ((b"\xff", b"1"), (b"h", None)))])[0]


def test_a_record_that_arrived_is_like_one_that_was_made() -> None:
    made = Record(b"v", b"k", [("\udcff", b"1"), ("h", None)], 7, 5)
    assert arrived() == made and made == arrived() and repr(arrived()) == repr(made)
    assert dataclasses.replace(arrived(), value=b"x") == Record(b"x", b"k", made.headers, 7, 5)
    assert copy.deepcopy(arrived()) == made and copy.copy(arrived()) == made
    assert pickle.loads(pickle.dumps(arrived())) == made
    record = arrived()
    assert record.headers is record.headers
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.value = b""  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'nothing'"):
        record.nothing  # type: ignore[attr-defined]  # noqa: B018
    assert Record(b"v").headers is not Record(b"v").headers
    assert list(dataclasses.asdict(arrived())) == ["value", "key", "headers", "offset", "timestamp_ms"]
    assert dataclasses.astuple(arrived()) == (b"v", b"k", record.headers, 7, 5)
    assert dataclasses.replace(arrived(), value=b"w") == Record(b"w", b"k", record.headers, 7, 5)


def test_emits() -> None:
    record = arrived()
    for emit, due in (
        (Base.out.emit(record), record),
        (Base.out.emit(record, value=b""), Record(b"", b"k", record.headers, 7, 5)),
        (Base.out.emit(record, key=None, headers=[]), Record(b"v", None, [], 7, 5)),
        (Base.out.emit(record, timestamp_ms=9), Record(b"v", b"k", record.headers, 7, 9)),
        (Base.out.emit(value=b"n", key=b"kk"), Record(b"n", b"kk")),
        (Base.out.emit(value=bytearray(b"n")), Record(b"n")),  # type: ignore[arg-type]
        (Base.out.tombstone(b"kk"), Record(None, b"kk")),
    ):
        assert emit.outlet == "out" and emit.record == due and emit.record is emit.record
        assert emit == Emit("out", due) and pickle.loads(pickle.dumps(emit)) == emit
        assert repr(emit) == f"Emit(outlet='out', record={due!r})"
        with pytest.raises(dataclasses.FrozenInstanceError):
            emit.outlet = "x"  # type: ignore[misc]
        assert dataclasses.replace(emit, outlet="other") == Emit("other", due)
    calls: list[tuple[Any, type[Exception]]] = [
        (Base.out.emit, ValueError),
        (lambda: Base.out.emit(value="text"), TypeError),  # type: ignore[arg-type]
        (lambda: Base.out.emit(record, key="text"), TypeError),  # type: ignore[arg-type]
        (lambda: Base.out.emit(record, headers=[("h", "text")]), TypeError),  # type: ignore[list-item]
        (lambda: Base.out.emit(record, headers=[(5, b"")]), TypeError),  # type: ignore[list-item]
        (lambda: Base.out.emit(record, timestamp_ms=-1), ValueError),
        (lambda: Base.out.emit(record, timestamp_ms=1.5), ValueError),  # type: ignore[arg-type]
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()
