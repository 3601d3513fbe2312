"""The console script ``descriptor``: writes a project's descriptor from its streamlet, without a supervisor.

``ankka-flow descriptor -- python streamlet.py`` writes the same text; it asks the program, this imports the class.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .descriptor import spec_for, validate, write
from .streamlet import Streamlet

VARIABLE = "FLOW_STREAMLET"
_HOW = f"set {VARIABLE}=module:Class, or streamlet in [tool.ankka-flow] of pyproject.toml"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the descriptor; gives the exit code: 1 where it differs, or the declaration has problems."""
    parser = argparse.ArgumentParser(
        prog="descriptor", description=f"Write the descriptor of the project's streamlet. Which one: {_HOW}."
    )
    parser.add_argument("--out", default="flow/descriptor.json", help="the file (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 where the file differs")
    arguments = parser.parse_args(argv)
    if Path("src").is_dir():
        sys.path.insert(0, str(Path("src").absolute()))
    sys.path.append(str(Path.cwd()))  # a script's path begins with its own folder instead
    spec = spec_for(load(reference()))
    problems = validate(spec)
    for problem in problems:
        print(f"descriptor: {problem}", file=sys.stderr)
    if problems:
        return 1
    out, text = Path(arguments.out), write(spec)
    return _check(out, text) if arguments.check else _write(out, text)


def _write(out: Path, text: str) -> int:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {out}")
    return 0


def _check(out: Path, text: str) -> int:
    try:
        same = out.read_bytes() == text.encode()
    except FileNotFoundError:
        print(f"descriptor: {out} is not there; run descriptor without --check to write it", file=sys.stderr)
        return 1
    if not same:
        print(f"descriptor: {out} is not what the streamlet declares; run descriptor to write it", file=sys.stderr)
        return 1
    print(f"{out} is up to date")
    return 0


def reference() -> str:
    """Where the streamlet is, as ``module:Class``. Raises SystemExit that says how to set it."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    if sys.version_info >= (3, 11):  # here, for a copy of this package may have no tomli beside it
        import tomllib
    else:
        import tomli as tomllib
    try:
        project: Any = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SystemExit(f"descriptor: which streamlet? {_HOW}; there is no pyproject.toml in {Path.cwd()}") from None
    except tomllib.TOMLDecodeError as error:
        raise SystemExit(f"descriptor: pyproject.toml is no TOML: {error}") from None
    table = project.get("tool", {}).get("ankka-flow", {})
    named = table.get("streamlet") if isinstance(table, dict) else None
    if not isinstance(named, str):
        raise SystemExit(f"descriptor: which streamlet? {_HOW}")
    return named


def load(named: str) -> type[Streamlet]:
    """The class, or that of the object, at ``module:Class``. Raises SystemExit where there is none."""
    module_name, _, attribute = named.partition(":")
    if not module_name or not attribute:
        raise SystemExit(f"descriptor: {named!r} must be module:Class")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and what it imports is not
        raise SystemExit(f"descriptor: there is no module {error.name!r} here, in src, or installed") from None
    found = getattr(module, attribute, None)
    kind = found if isinstance(found, type) else type(found)
    if not issubclass(kind, Streamlet):
        raise SystemExit(f"descriptor: {named} is no Streamlet" if found is not None else f"descriptor: no {named}")
    return kind
