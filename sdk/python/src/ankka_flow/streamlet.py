"""``Streamlet``: what a program declares and how its records are handled."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from .parameters import Config, Parameter
from .policy import ErrorPolicy
from .ports import JsonInlet, JsonOutlet, Port
from .records import Batch, Record


class Voidable(Protocol):
    """What a context asks whether its batch's answer still counts."""

    void: bool


class Context:
    """Where the record at hand comes from.

    ``topic`` is the inlet's topic (empty in a test). ``attempt`` is which try this is of this record by this call,
    from 1. ``delivery`` is which delivery by the supervisor since the partition's last commit, from 1: a hint that it
    may have been handled before, exact only for a batch of one record.
    """

    __slots__ = ("_run", "attempt", "delivery", "inlet", "partition", "topic")

    def __init__(self, inlet: str, topic: str, partition: int, delivery: int, run: Voidable) -> None:
        self.inlet = inlet
        self.topic = topic
        self.partition = partition
        self.attempt = 1
        self.delivery = delivery
        self._run = run

    @property
    def stopping(self) -> bool:
        """True once the answer no longer counts: the partition was taken away or the stream failed.

        Then a long handler may return early; what it emitted is dropped and the records are delivered again. A
        regular stop does not set it, for a handler that returned early would acknowledge what it did not do.
        """
        return self._run.void


class Streamlet(ABC):
    """The base class of every streamlet.

    Ports and parameters are class attributes, found when a subclass is defined, inherited ones included; a name that
    is used twice raises TypeError there. A subclass has one of two handlers, plain or ``async``:

    ``process(self, batch)`` gets a batch and returns or yields the emits for all of it.
    ``process_record(self, record, ctx)`` gets one record after another and returns an emit, several, or None.

    Returning acknowledges the batch, raising anything fails it, and emitting nothing for a record skips that record.
    A handler runs in a thread of its own per batch, never twice at once for one partition.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    errors: ClassVar[ErrorPolicy | None] = None
    """How errors of single records are treated. None: an exception fails its batch, unless the configuration has
    ``errors:``."""
    config: Config
    """The parameters' values: the defaults until the conversation starts, then the configured ones."""

    _inlets: ClassVar[list[JsonInlet]] = []
    _outlets: ClassVar[list[JsonOutlet]] = []
    _parameters: ClassVar[list[Parameter[Any]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            for attribute, value in vars(base).items():
                declared.pop(attribute, None)
                if isinstance(value, (Port, Parameter)):
                    declared[attribute] = value
        cls._inlets = [value for value in declared.values() if isinstance(value, JsonInlet)]
        cls._outlets = [value for value in declared.values() if isinstance(value, JsonOutlet)]
        cls._parameters = [value for value in declared.values() if isinstance(value, Parameter)]
        _refuse_twice(cls, "port", [port.name for port in (*cls._inlets, *cls._outlets)])
        _refuse_twice(cls, "parameter", [parameter.key for parameter in cls._parameters])
        if "process" in vars(cls) and "process_record" in vars(cls):
            raise TypeError(f"{cls.__name__} defines both process and process_record; it needs one")
        if cls.errors is not None and not isinstance(cls.errors, ErrorPolicy):
            raise TypeError(f"{cls.__name__}.errors must be an ErrorPolicy, not {cls.errors!r}")
        letters = cls.errors and cls.errors._dead_letter
        if letters is not None and letters not in cls._outlets:
            raise TypeError(f"{cls.__name__}.errors names a dead-letter outlet that is no attribute of the class")

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Streamlet:
        handler_name(cls)
        made = super().__new__(cls)
        made.config = Config.resolve(cls._parameters, {})  # here, so that a subclass may forget super().__init__()
        return made

    # The handlers return Any, for an override may be a function, a generator, or the async kind of either.

    def process(self, batch: Batch) -> Any:
        """Handle a batch: returns an iterable of Emit, or None for no emit at all."""
        raise TypeError(f"{type(self).__name__} defines no process(batch), so there is none to call")

    def process_record(self, record: Record, ctx: Context) -> Any:
        """Handle one record: returns an Emit, an iterable of Emit, or None."""
        raise TypeError(f"{type(self).__name__} defines no process_record(record, ctx), so there is none to call")

    @classmethod
    def inlets(cls) -> list[JsonInlet]:
        """The declared inlets, in the order of declaration."""
        return list(cls._inlets)

    @classmethod
    def outlets(cls) -> list[JsonOutlet]:
        """The declared outlets, in the order of declaration."""
        return list(cls._outlets)

    @classmethod
    def parameters(cls) -> list[Parameter[Any]]:
        """The declared parameters, in the order of declaration."""
        return list(cls._parameters)

    def configure(self, values: Mapping[str, object]) -> None:
        """Resolve ``values`` into ``config``; called at the start of every conversation, before its first batch."""
        self.config = Config.resolve(self._parameters, values)


def handler_name(cls: type[Streamlet]) -> str:
    """Which handler ``cls`` has: ``process`` or ``process_record``; the most derived one counts. Raises TypeError."""
    for base in cls.__mro__:
        if base is Streamlet:
            break
        for name in ("process", "process_record"):
            if name in vars(base):
                return name
    raise TypeError(f"{cls.__name__} defines neither process(self, batch) nor process_record(self, record, ctx)")


def _refuse_twice(cls: type, what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TypeError(f"{cls.__name__} declares {what} {', '.join(twice)} more than once")
