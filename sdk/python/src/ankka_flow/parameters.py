"""Configuration parameters, typed, with durations and memory sizes in HOCON's syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_KEY = re.compile(r"[a-z][a-z0-9-]*")
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z]*)")

# Microseconds per unit.
_DURATIONS = {
    unit: factor
    for factor, units in (
        (Fraction(1, 1000), "ns nano nanos nanosecond nanoseconds"),
        (Fraction(1), "us micro micros microsecond microseconds"),
        (Fraction(1000), "ms milli millis millisecond milliseconds"),
        (Fraction(10**6), "s second seconds"),
        (Fraction(60 * 10**6), "m minute minutes"),
        (Fraction(3600 * 10**6), "h hour hours"),
        (Fraction(86400 * 10**6), "d day days"),
    )
    for unit in units.split()
}


def _sizes() -> dict[str, int]:
    """Bytes per unit: `k`, `K`, `Ki`, `KiB` are 1,024 and `kB` is 1,000, and so on upward."""
    units = dict.fromkeys(("B", "b", "byte", "bytes"), 1)
    for power, (letter, decimal, binary) in enumerate(
        (("k", "kilo", "kibi"), ("m", "mega", "mebi"), ("g", "giga", "gibi"),
         ("t", "tera", "tebi"), ("p", "peta", "pebi"), ("e", "exa", "exbi")), 1
    ):  # fmt: skip
        big = letter.upper()
        for unit in (letter, big, f"{big}i", f"{big}iB", f"{binary}byte", f"{binary}bytes"):
            units[unit] = 1024**power
        for unit in ("kB" if letter == "k" else f"{big}B", f"{decimal}byte", f"{decimal}bytes"):
            units[unit] = 1000**power
    return units


_SIZES = _sizes()


def _quantity(text: str, units: Mapping[str, Fraction | int], bare: str, what: str) -> Fraction:
    match = _QUANTITY.fullmatch(text.strip())
    factor = units.get(match[2] or bare) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a {what}")
    return Fraction(match[1]) * factor


def parse_duration(text: str) -> timedelta:
    """A HOCON duration: ``100 ms``, ``5m``, ``1.5 s``; a bare number is milliseconds. Raises ValueError."""
    micros = _quantity(text, _DURATIONS, "ms", "duration")
    try:
        return timedelta(microseconds=round(micros))
    except OverflowError:
        raise ValueError(f"{text!r} is not a duration: too long") from None


def parse_memory_size(text: str) -> int:
    """Bytes of a HOCON size: ``1 MiB``, ``512k``, ``10MB``; a bare number is bytes. Raises ValueError."""
    size = _quantity(text, _SIZES, "B", "memory size")
    if size < 0:
        raise ValueError(f"{text!r} is not a memory size: negative")
    return int(size)


class Parameter(Generic[T]):
    """A declared parameter; ``config[param]`` is its value as ``T``.

    ``default`` is a value of the type or its text; without one the parameter must be configured. An empty text is
    no default. A default that is no value of the type raises ValueError here, at declaration.
    """

    type_name = "STRING"

    def __init__(self, key: str, *, default: T | str | None = None, description: str = "") -> None:
        if not _KEY.fullmatch(key):
            raise ValueError(f"parameter key {key!r} must match [a-z][a-z0-9-]*")
        self.key = key
        self.description = description
        self.default_value = "" if default is None else self.render(default)
        if self.default_value:
            self.parse(self.default_value)

    def render(self, value: T | str) -> str:
        """The text of a value, as it stands in the descriptor."""
        return str(value)

    def parse(self, text: str) -> T:
        """The value that ``text`` stands for. Raises ValueError; each type of parameter has its own."""
        raise TypeError(f"{type(self).__name__} has no type: use StringParameter, IntegerParameter, ...")

    def from_json(self, value: object) -> T:
        """A value as ``start`` carries it, as JSON has it, or as text. Raises ValueError."""
        return self.parse(value if isinstance(value, str) else self.render(cast(T, value)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r})"


class StringParameter(Parameter[str]):
    """Any text."""

    def parse(self, text: str) -> str:
        return text


class IntegerParameter(Parameter[int]):
    """An integer."""

    type_name = "INTEGER"

    def parse(self, text: str) -> int:
        try:
            return int(text.replace("_", "?"))  # Python reads 1_000, no other SDK does
        except ValueError:
            raise ValueError(f"{text!r} is not an integer") from None

    def from_json(self, value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return super().from_json(value)


class DoubleParameter(Parameter[float]):
    """A number."""

    type_name = "DOUBLE"

    def parse(self, text: str) -> float:
        try:
            return float(text.replace("_", "?"))
        except ValueError:
            raise ValueError(f"{text!r} is not a double") from None


class BooleanParameter(Parameter[bool]):
    """``true`` or ``false``."""

    type_name = "BOOLEAN"

    def render(self, value: bool | str) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def parse(self, text: str) -> bool:
        if text.strip() not in ("true", "false"):
            raise ValueError(f"{text!r} is not a boolean: true or false")
        return text.strip() == "true"


class DurationParameter(Parameter[timedelta]):
    """A span of time, as ``datetime.timedelta``. A number is milliseconds."""

    type_name = "DURATION"

    def render(self, value: timedelta | str) -> str:
        if not isinstance(value, timedelta):
            return str(value)
        micros = value // timedelta(microseconds=1)
        return f"{micros // 1000} ms" if micros % 1000 == 0 else f"{micros} us"

    def parse(self, text: str) -> timedelta:
        return parse_duration(text)


class MemorySizeParameter(Parameter[int]):
    """A size in bytes. A number is bytes."""

    type_name = "MEMORY_SIZE"

    def parse(self, text: str) -> int:
        return parse_memory_size(text)


class Config:
    """A streamlet's resolved parameter values, typed by their parameters."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @staticmethod
    def resolve(parameters: Iterable[Parameter[Any]], values: Mapping[str, object]) -> Config:
        """The defaults, overlaid by ``values`` (typed, as JSON has them, or as text).

        A key that is not declared raises KeyError, a value of the wrong type ValueError. A parameter with neither
        default nor value is absent: reading it raises KeyError.
        """
        declared = {p.key: p for p in parameters}
        unknown = sorted(set(values) - set(declared))
        if unknown:
            raise KeyError(f"no parameter {', '.join(unknown)}; declared: {', '.join(sorted(declared)) or 'none'}")
        resolved: dict[str, Any] = {}
        for key, parameter in declared.items():
            if key in values:
                try:
                    resolved[key] = parameter.from_json(values[key])
                except ValueError as error:
                    raise ValueError(f"parameter {key!r}: {error}") from None
            elif parameter.default_value:
                resolved[key] = parameter.parse(parameter.default_value)
        return Config(resolved)

    def __getitem__(self, parameter: Parameter[T]) -> T:
        try:
            return cast(T, self._values[parameter.key])
        except KeyError:
            raise KeyError(f"parameter {parameter.key!r} has neither a value nor a default") from None

    def get(self, key: str) -> Any:
        """The value by its key, or None."""
        return self._values.get(key)

    def as_dict(self) -> dict[str, Any]:
        """Every resolved value by its key."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"Config({', '.join(sorted(self._values))})"  # keys only: a value may be a secret
