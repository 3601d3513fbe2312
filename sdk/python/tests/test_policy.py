"""The policy's decisions, by the vectors that the SDKs of all languages share (``sdk/testdata/errors``)."""

from __future__ import annotations

import asyncio
import bdb
import errno
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ankka_flow import (
    BatchError,
    DeadLetter,
    DeadLetterOutlet,
    ErrorPolicy,
    Fatal,
    JsonInlet,
    Limit,
    Retriable,
    Skip,
    Streamlet,
    UndeclaredOutletError,
)
from ankka_flow._attempts import Deaths
from ankka_flow._policy import ROWS, Limiter, Settings, configured, decide, retry_wait

VECTORS = {
    path.stem: json.loads(path.read_text())
    for path in (Path(__file__).parents[2] / "testdata" / "errors").glob("*.json")
}


def named(vectors: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=[vector.get("name", str(vector)) for vector in vectors])


@named(VECTORS["retry"]["sequences"])
def test_case72_retry_sequence(vector: dict[str, Any]) -> None:
    settings = Settings(vector["timeout"], vector["max"], vector.get("attempts", 0))
    elapsed, waits = 0, []
    for attempt in range(1, len(vector["waits"]) + 1):
        wait = retry_wait(settings, attempt, elapsed, lambda: vector.get("random", 0.5))
        assert wait is not None
        waits.append(wait)
        elapsed += wait
    assert waits == vector["waits"]
    last = retry_wait(settings, len(waits) + 1, elapsed, lambda: 0.5)
    assert (last is None) == vector["ends"]


@named(VECTORS["retry"]["single"])
def test_case73_retry_wait(vector: dict[str, Any]) -> None:
    settings = Settings(vector["timeout"], vector["max"])
    wait = retry_wait(settings, vector["attempt"], vector["elapsed"], lambda: vector["random"], vector.get("after"))
    assert wait == vector["wait"]


@named(VECTORS["decide"]["cases"])
def test_decide(vector: dict[str, Any]) -> None:
    settings = Settings(tolerance=vector["tolerance"], exhausted=vector["exhausted"])
    assert decide(settings, vector["error"], vector["dead_letter"], vector["within"]) == vector["verdict"]


@named(VECTORS["limit"]["cases"])
def test_case75_limit(vector: dict[str, Any]) -> None:
    limit = vector["limit"]
    limiter = Limiter(
        Settings(
            limit_errors=limit.get("errors", -1),
            limit_window=limit.get("window", 60_000),
            limit_run=limit.get("run", -1),
            limit_ratio=limit.get("ratio", 1),
        )
    )
    for at, what, *rest in vector["steps"]:
        if what == "handled":
            limiter.handled(rest[0], at)
        else:
            partition, offset, tolerated = rest
            assert limiter.error(partition, offset, at) == tolerated, (at, what, rest)


def test_a_limit_remembers_no_more_than_it_needs() -> None:
    limiter = Limiter(Settings(limit_errors=10, limit_ratio=0.5, limit_window=1000))
    for now in range(100_000):
        limiter.handled(1, now)
        limiter.error(0, now, now)
    assert len(limiter._errors) <= 11 and len(limiter._moments) <= 130


def test_every_setting_is_in_the_shared_table() -> None:
    table = [(row["name"], row["domain"]) for row in VECTORS["settings"]["names"]]
    assert [(row.name, row.domain) for row in ROWS] == table
    for row, vector in zip(ROWS, VECTORS["settings"]["names"], strict=True):
        default = getattr(Settings(), row.field)
        assert row.read(vector["default"]) == ("" if default is None else default)


@pytest.mark.parametrize("setting", VECTORS["settings"]["good"], ids=str)
def test_a_good_setting(setting: list[str]) -> None:
    name, text = setting
    assert configured(Settings(), {name: text}) == configured(Settings(), {f"errors.{name}": text})


@pytest.mark.parametrize("setting", VECTORS["settings"]["bad"], ids=str)
def test_an_impossible_setting_is_refused(setting: list[str]) -> None:
    name, text = setting
    with pytest.raises(ValueError, match=f"^errors.{name}: .*is not in its domain"):
        configured(Settings(), {name: text})


@pytest.mark.parametrize("names", VECTORS["settings"]["misspelt"], ids=str)
def test_case80_a_misspelt_setting_names_the_nearest(names: list[str]) -> None:
    wrong, right = names
    with pytest.raises(ValueError, match=f"there is no such setting; did you mean errors.{right}\\?$"):
        configured(Settings(), {wrong: "1"})


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(ValueError) as refused:
        configured(Settings(), {"tolerance": "x", "retry.timeout": "-5", "nonsense": "1", "errors.tolerance": "all"})
    assert len(str(refused.value).split("\n")) == 4


def test_a_policy_in_code_has_the_defaults_of_the_kip() -> None:
    assert ErrorPolicy()._settings == Settings()


def test_a_policy_in_code_has_every_setting() -> None:
    policy = ErrorPolicy(
        retry_timeout="1m",
        retry_delay_max=timedelta(seconds=5),
        max_attempts=7,
        tolerance=Limit(errors=100, per="10s", ratio=0.25, consecutive=9),
        on_exhausted="hold",
        log=True,
        log_messages=True,
        context_headers=True,
        max_deliveries=3,
    )
    assert policy._settings == Settings(
        60_000, 5000, 7, "all", 100, 10_000, 9, 0.25, "hold", 3, True, True, None, 3, True
    )
    assert ErrorPolicy(retry_timeout=None)._settings.retry_timeout == -1
    assert ErrorPolicy(retry_timeout=-1)._settings.retry_timeout == -1
    assert ErrorPolicy(retry_timeout=2**63 - 1)._settings.retry_timeout == 2**63 - 1


def test_a_policy_in_code_refuses_everything_at_once() -> None:
    with pytest.raises(ValueError) as refused:
        ErrorPolicy(
            retry_timeout="soon",
            retry_delay_max=0,
            tolerance="some",
            on_exhausted="wait",
            max_deliveries=1,
            retry_on=(KeyboardInterrupt,),  # type: ignore[arg-type]
        )
    for name in ("retry_timeout", "retry_delay_max", "tolerance", "on_exhausted", "max_deliveries", "retry_on"):
        assert f"{name}" in str(refused.value)
    with pytest.raises(TypeError):
        ErrorPolicy(tolerence="all")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Retriable("x"), "retriable"),
        (ConnectionResetError(), "retriable"),
        (TimeoutError(), "retriable"),
        (asyncio.TimeoutError(), "retriable"),
        (OSError(errno.EHOSTUNREACH, "away"), "retriable"),
        (OSError(errno.ENOSPC, "full"), "permanent"),
        (ValueError(), "permanent"),
        (RecursionError(), "permanent"),
        (Skip(), "skip"),
        (DeadLetter(), "dead-letter"),
        (Fatal(), "fatal"),
        (MemoryError(), "fatal"),
        (bdb.BdbQuit(), "fatal"),
        (SystemExit(), "fatal"),
        (KeyboardInterrupt(), "fatal"),
        (GeneratorExit(), "fatal"),
        (asyncio.CancelledError(), "fatal"),
        (UndeclaredOutletError(), "fatal"),
    ],
    ids=repr,
)
def test_operations_what_is_retried_and_what_is_never_tolerated(error: BaseException, kind: str) -> None:
    assert ErrorPolicy().classify(error) == kind


def test_never_retry_wins() -> None:
    class Gone(Retriable):
        pass

    policy = ErrorPolicy(retry_on=[KeyError, ConnectionError], never_retry=[Gone, ConnectionRefusedError])
    errors = (KeyError(), Retriable(), Gone(), ConnectionResetError(), ConnectionRefusedError(), TimeoutError())
    assert [policy.classify(error) for error in errors] == [
        "retriable", "retriable", "permanent", "retriable", "permanent", "permanent",
    ]  # fmt: skip


def test_exceptions_refuse_what_makes_no_sense() -> None:
    assert Retriable(after=1.5).after_ms == Retriable(after=timedelta(seconds=1.5)).after_ms == 1500
    for call in (lambda: Retriable(after=-1), lambda: Retriable(after=float("nan")), lambda: BatchError({})):
        with pytest.raises(ValueError):
            call()


def test_the_dead_letter_outlet_must_be_declared() -> None:
    with pytest.raises(TypeError, match="no attribute of the class"):

        class Undeclared(Streamlet):
            name = "s"
            inlet = JsonInlet("in", schema_name="a")
            errors = ErrorPolicy(tolerance="all", dead_letter=DeadLetterOutlet())

            def process_record(self, record: Any, ctx: Any) -> None: ...


def test_deaths_are_deliveries_that_nobody_answered_for() -> None:
    deaths = Deaths()
    # A new process: three deliveries before its life ended with the process.
    assert deaths.before("in", 0, 7, 4) == 3
    # It failed the batch itself: that is known, and no death.
    assert deaths.before("in", 0, 7, 5) == 3
    assert deaths.before("in", 0, 7, 6) == 3
    assert deaths.before("in", 1, 7, 1) == 0
    assert deaths.before("in", 0, 8, 1) == 0
