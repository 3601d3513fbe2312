"""A test that uses the fixture ``codec`` runs twice: with the ``msgpack`` package and with our own codec."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ankka_flow import _codec, _msgpack
from process import Process, Spawn


@pytest.fixture(params=["package", "own"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    packb, unpackb = _codec._package() if name == "package" else (_msgpack.packb, _msgpack.unpackb)
    monkeypatch.setattr(_codec, "packb", packb)
    monkeypatch.setattr(_codec, "unpackb", unpackb)
    return name


@pytest.fixture
def spawn(codec: str) -> Iterator[Spawn]:
    """Starts a program as ankka-flow would, with the codec of this run; kills what is left at the end."""
    started: list[Process] = []

    def start(program: str, *, launched: bool = True) -> Process:
        process = Process(program, own_codec=codec == "own", launched=launched)
        started.append(process)
        return process

    yield start
    for process in started:
        process.close()
