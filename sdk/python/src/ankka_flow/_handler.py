"""Runs a streamlet's handler over a batch and gives its emits. No IO, no thread: the caller has those.

A handler that returns a generator is consumed by the caller, in the batch's own thread or task, so whatever it
raises is the batch's failure.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

from . import _frames
from .records import Batch, Emit, Record
from .streamlet import Context, Streamlet, handler_name


class Revoked(Exception):
    """Raised between two records of a void batch: its answer is dropped, so there is no use in going on."""


class At:
    """Which record a handler is at, or None while it has the whole batch."""

    __slots__ = ("record",)

    def __init__(self) -> None:
        self.record: Record | None = None


def handler_of(streamlet: Streamlet) -> str:
    """The handler's name for people, as ``Router.process_record``."""
    return f"{type(streamlet).__qualname__}.{handler_name(type(streamlet))}"


def is_async(streamlet: Streamlet) -> bool:
    """Whether the handler is ``async def``, with or without ``yield``. Other kinds run in a thread."""
    handler = getattr(streamlet, handler_name(type(streamlet)))
    return inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler)


def emits(streamlet: Streamlet, batch: Batch, ctx: Context, at: At) -> Iterator[Emit]:
    """What a plain handler emits for the batch, in order."""
    if handler_name(type(streamlet)) == "process":
        yield from iterable(streamlet.process(batch))
        return
    handler = streamlet.process_record
    run = ctx._run
    for record in batch.records:
        if run.void:
            raise Revoked
        at.record = record
        made = handler(record, ctx)
        if made is None:
            continue
        if made.__class__ is Emit:
            yield made
        else:
            yield from iterable(made)


async def async_emits(streamlet: Streamlet, batch: Batch, ctx: Context, at: At) -> AsyncIterator[Emit]:
    """What an ``async`` handler emits for the batch, in order."""
    if handler_name(type(streamlet)) == "process":
        async for emit in async_iterable(streamlet.process(batch)):
            yield emit
        return
    for record in batch.records:
        if ctx.stopping:
            raise Revoked
        at.record = record
        async for emit in async_iterable(streamlet.process_record(record, ctx)):
            yield emit


def iterable(made: Any) -> Iterable[Emit]:
    if made is None:
        return ()
    if isinstance(made, Emit):
        return (made,)
    if isinstance(made, Iterable) and not isinstance(made, (str, bytes, dict)):
        return made
    hint = "; declare it with async def" if inspect.isawaitable(made) or isinstance(made, AsyncIterable) else ""
    if inspect.iscoroutine(made):
        made.close()
    raise TypeError(f"the handler returned a {type(made).__name__}, not an Emit, an iterable of Emit or None{hint}")


async def async_iterable(made: Any) -> AsyncIterator[Emit]:
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AsyncIterable):
        async for emit in made:
            yield emit
    else:
        for emit in iterable(made):
            yield emit


def failure(error: BaseException, offset: int | None) -> dict[str, Any]:
    """The map of a ``fail``: message, kind, detail, and the offset where the record is known."""
    kind = type(error)
    name = class_name(kind)
    try:
        detail = "".join(traceback.format_exception(kind, error, user_part(error)))
    except Exception as broken:  # an exception whose own text cannot be made
        detail = f"{name} (no traceback: {type(broken).__name__} while formatting it)"
    made = {"message": _frames.text(error), "kind": _frames.text(name), "detail": _frames.text(detail)}
    return made if offset is None else {**made, "offset": offset}


def class_name(kind: type) -> str:
    """A class with its module, as ``json.decoder.JSONDecodeError``; without it for what is built in."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def user_part(error: BaseException) -> Any:
    """The traceback from the handler on; the whole one where no frame of the handler is in it."""
    here = __name__.rpartition(".")[0] + "."
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(here):
        trace = trace.tb_next
    return trace if trace is not None else error.__traceback__


def known_offset(records: list[Record], at: At) -> int | None:
    """The offset to name in a failure: the record at hand, or the only one there is."""
    if at.record is None:
        return records[0].offset if len(records) == 1 else None
    return at.record.offset
