"""The console scripts ``descriptor`` and ``conformance``, called as functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ankka_flow import _conformance, _descriptor, descriptor

GOOD = """
from ankka_flow import JsonInlet, Streamlet
class Sink(Streamlet):
    name = "sink"
    inlet = JsonInlet("in", schema_name="s")
    def process(self, batch): ...
made = Sink()
class Bad(Sink):
    name = "-bad-"
class Worse(Sink):
    name = "worse"
    inlet = None
number = 1
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("FLOW_STREAMLET", raising=False)
    known = set(sys.modules)
    (tmp_path / "shop.py").write_text(GOOD)
    yield tmp_path
    for module in set(sys.modules) - known:
        del sys.modules[module]


def written(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_writes_and_checks(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FLOW_STREAMLET", "shop:Sink")
    file = project / "flow" / "descriptor.json"
    assert _descriptor.main(["--check"]) == 1 and not file.exists()
    assert "flow/descriptor.json is not there" in capsys.readouterr().err
    assert _descriptor.main([]) == 0
    assert written(file) == descriptor.write(descriptor.spec_for(_descriptor.load("shop:Sink")))
    assert _descriptor.main(["--check"]) == 0
    file.write_text(written(file).replace("sink", "sunk"))
    assert _descriptor.main(["--check"]) == 1 and "sunk" in written(file)
    assert "flow/descriptor.json is not what the streamlet declares" in capsys.readouterr().err
    assert _descriptor.main(["--out", "d.json"]) == 0 and '"sink"' in written(project / "d.json")


def test_names_the_streamlet_in_pyproject_and_prefers_the_variable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "src").mkdir()
    (project / "shop.py").rename(project / "src" / "store.py")
    (project / "pyproject.toml").write_text('[tool.ankka-flow]\nstreamlet = "store:made"\n')
    assert _descriptor.main([]) == 0
    (project / "other.py").write_text(GOOD.replace('"sink"', '"other"'))
    monkeypatch.setenv("FLOW_STREAMLET", "other:Sink")
    assert _descriptor.main(["--check"]) == 1


def test_prints_every_problem_of_a_declaration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLOW_STREAMLET", "shop:Bad")
    assert _descriptor.main([]) == 1
    assert "descriptor: streamlet name '-bad-' must be" in capsys.readouterr().err
    assert not Path("flow").exists()


@pytest.mark.parametrize(
    ("pyproject", "named", "says"),
    [
        (None, None, "set FLOW_STREAMLET=module:Class, or streamlet in .*; there is no pyproject.toml in"),
        ("[tool.other]\n", None, "which streamlet"),
        ("[tool]\nankka-flow = 1\n", None, "which streamlet"),
        ("[tool.ankka-flow]\nstreamlet = 1\n", None, "which streamlet"),
        ("[tool", None, "pyproject.toml is no TOML"),
        (None, "shop", "'shop' must be module:Class"),
        (None, ":Sink", "':Sink' must be module:Class"),
        (None, "shop:Nothing", "no shop:Nothing"),
        (None, "shop:number", "shop:number is no Streamlet"),
        (None, "nowhere:Sink", "there is no module 'nowhere'"),
        (None, "shop.inner:Sink", "there is no module 'shop.inner'"),
    ],
)
def test_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, pyproject: str | None, named: str | None, says: str
) -> None:
    if pyproject is not None:
        Path("pyproject.toml").write_text(pyproject)
    if named is not None:
        monkeypatch.setenv("FLOW_STREAMLET", named)
    with pytest.raises(SystemExit, match=says) as end:
        _descriptor.main([])
    assert not isinstance(end.value.code, int)  # a text: Python prints it and exits with 1


def test_an_import_that_fails_in_the_module_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("shop.py").write_text("import missing_package\n")
    monkeypatch.setenv("FLOW_STREAMLET", "shop:Sink")
    with pytest.raises(ModuleNotFoundError, match="missing_package"):
        _descriptor.main([])


def test_conformance_asks_this_sdks_reference_streamlet(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def call(command: list[str]) -> int:
        called.append(command)
        return 3

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setenv("ANKKA_FLOW_CONFORMANCE_ONLY", "run.echo")
    (project / "ankka-flow").touch(0o755)
    assert _conformance.main(["--json"]) == 3
    due = [str(project / "ankka-flow"), "conformance", "--json", "--run", r"^run\.echo"]
    assert called == [[*due, "--", sys.executable, "-m", "ankka_flow._conformance"]]
