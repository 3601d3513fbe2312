"""Every example in Python of README.md runs, one behind the other, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ankka_flow import _descriptor

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    assert "from ankka_flow.testkit import Harness" in examples[1]
    exec(compile("\n".join(examples), "README.md", "exec"), {"__name__": "router"})
    (tmp_path / "router.py").write_text(examples[0])
    [settings] = re.findall(r"^```toml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _descriptor.main([]) == 0 == _descriptor.main(["--check"])
