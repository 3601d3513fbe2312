"""docs/errors.md says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ankka_flow import Context, DeadLetterOutlet, ErrorPolicy, JsonInlet, Record, Streamlet, _attempts
from ankka_flow._policy import ROWS, Settings, configured
from ankka_flow.testkit import Harness

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "errors.md").read_text()
KIP = json.loads((ROOT / "sdk" / "testdata" / "errors" / "settings.json").read_text())["names"]


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_settings() -> None:
    rows = re.findall(r"^\| `(\S+)` \| (yes|no) \| `(.*?)` \| (.*?) \|", section("Settings"), re.M)
    assert rows == [(row["name"], "yes" if row["kip"] else "no", row["default"], row["domain"]) for row in KIP]
    assert [row[0] for row in rows] == [row.name for row in ROWS]


def test_the_yaml_example() -> None:
    example = re.search(r"```yaml\nerrors:\n(.*?)```", PAGE, re.S)
    assert example is not None
    texts = dict(line.strip().split(": ") for line in example[1].strip().split("\n"))
    assert configured(Settings(), texts) != Settings()


def test_the_python_example() -> None:
    example = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert example is not None
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example[1], "docs/errors.md", "exec"), names)
    h = Harness(names["Router"]())
    h.inlet("in").put(value=b'{"total": 1}')
    h.inlet("in").put(value=b"no JSON")
    h.run()
    assert len(h.outlet("valid").records) == 1 and [r.value for r in h.dead_letters] == [b"no JSON"]


def test_headers() -> None:
    class Failing(Streamlet):
        name = "s"
        inlet = JsonInlet("in", schema_name="a")
        letters = DeadLetterOutlet()
        errors = ErrorPolicy(tolerance="all", dead_letter=letters, context_headers=True)

        def process_record(self, record: Record, ctx: Context) -> None:
            raise ValueError from KeyError()

    h = Harness(Failing())
    h.inlet("in").put(value=b"v")
    h.run()
    documented = re.findall(r"`(__(?:connect|flow)\.errors\.[a-z.]+)`", section("Headers of a dead letter"))
    assert sorted(documented) == sorted(name for name, _ in h.dead_letters[0].headers)


def test_metrics() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \|", section("Metrics"), re.M)
    assert len(rows) == 8
    source = Path(_attempts.__file__).read_text() + (Path(_attempts.__file__).parent / "server.py").read_text()
    counted = set(re.findall(r'"(\w+_total|last_error_timestamp_seconds)"', source))
    assert {name for _, name in rows} - {"ankka_flow_stream_failures_total"} == counted
