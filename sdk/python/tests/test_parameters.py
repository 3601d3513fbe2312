"""Parameters, their texts, and how a configuration resolves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ankka_flow import (
    BooleanParameter,
    Config,
    DoubleParameter,
    DurationParameter,
    IntegerParameter,
    MemorySizeParameter,
    Parameter,
    StringParameter,
)
from ankka_flow.parameters import parse_duration, parse_memory_size


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("100 ms", 100_000), ("5m", 300_000_000), ("1.5 s", 1_500_000), ("7", 7_000), ("1h", 3_600_000_000),
        ("2 days", 172_800_000_000), ("1 us", 1), ("1500 ns", 2), (" 3 seconds ", 3_000_000), ("-1s", -1_000_000),
        ("0.1 s", 100_000), ("1e3 ms", 1_000_000), (".5s", 500_000),
    ],
)  # fmt: skip
def test_durations(text: str, micros: int) -> None:
    assert parse_duration(text) == timedelta(microseconds=micros)


@pytest.mark.parametrize("text", ["", "s", "5 parsecs", "5 S", "1,5 s", "1 s 2", "1e999 d", "0x1 s", "inf s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 MiB", 1 << 20), ("512k", 512 << 10), ("10MB", 10_000_000), ("7", 7), ("1kB", 1000), ("1K", 1024),
        ("2 kibibytes", 2048), ("3 kilobytes", 3000), ("1G", 1 << 30), ("1 EiB", 1 << 60), ("0.5 KiB", 512),
        ("9007199254740993", 9007199254740993), ("4 b", 4), ("1 bytes", 1),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_memory_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 KB", "1 kb", "1 XB", "1 mib"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="not a memory size"):
        parse_memory_size(text)


CASES: list[tuple[Parameter[Any], list[tuple[object, object]], list[object]]] = [
    (StringParameter("k"), [("x", "x"), ("", ""), (5, "5")], []),
    (IntegerParameter("k"), [(5, 5), ("-5", -5), (5.0, 5), (" 7 ", 7)], ["x", 5.5, True, "1_0", None]),
    (DoubleParameter("k"), [(5, 5.0), ("1.5", 1.5), (1.25, 1.25)], ["x", True, "1_0"]),
    (BooleanParameter("k"), [(True, True), ("false", False)], ["yes", 1, "True"]),
    (DurationParameter("k"), [(1500, timedelta(seconds=1.5)), ("2s", timedelta(seconds=2)),
                              (timedelta(days=1), timedelta(days=1))], ["x", True]),
    (MemorySizeParameter("k"), [(5, 5), ("1k", 1024)], ["x", -1, True]),
]  # fmt: skip


@pytest.mark.parametrize(("parameter", "good", "bad"), CASES, ids=repr)
def test_values(parameter: Parameter[Any], good: list[tuple[object, object]], bad: list[object]) -> None:
    for given, due in good:
        resolved = Config.resolve([parameter], {"k": given})[parameter]
        assert resolved == due and type(resolved) is type(due)
    for given in bad:
        with pytest.raises(ValueError, match="parameter 'k'"):
            Config.resolve([parameter], {"k": given})


def test_defaults() -> None:
    assert IntegerParameter("k", default=5).default_value == "5"
    assert BooleanParameter("k", default=True).default_value == "true"
    assert DurationParameter("k", default=timedelta(seconds=5)).default_value == "5000 ms"
    assert DurationParameter("k", default=timedelta(microseconds=5)).default_value == "5 us"
    assert DurationParameter("k", default="5s").default_value == "5s"
    assert MemorySizeParameter("k", default="1 MiB").default_value == "1 MiB"
    for make in (
        lambda: IntegerParameter("k", default="x"),
        lambda: DurationParameter("k", default="5 parsecs"),
        lambda: StringParameter("Key"),
        lambda: StringParameter(""),
    ):
        with pytest.raises(ValueError):
            make()


def test_config() -> None:
    a, b = IntegerParameter("a", default=1), StringParameter("b")
    config = Config.resolve([a, b], {})
    assert config[a] == 1 and config.get("a") == 1 and config.get("b") is None and config.as_dict() == {"a": 1}
    with pytest.raises(KeyError, match="'b' has neither"):
        config[b]
    with pytest.raises(KeyError, match="no parameter c, d; declared: a, b"):
        Config.resolve([a, b], {"d": 1, "c": 2})
    assert "secret" not in repr(Config.resolve([b], {"b": "secret"}))


def test_a_parameter_without_a_type_says_which_there_are() -> None:
    with pytest.raises(TypeError, match="StringParameter"):
        Parameter[str]("key", default="a")
