"""The descriptor: canonical JSON to the byte, and its problems."""

from __future__ import annotations

import copy
from typing import Any

from ankka_flow import (
    BooleanParameter,
    IntegerParameter,
    JsonInlet,
    JsonOutlet,
    Streamlet,
    StringParameter,
    __version__,
    descriptor,
)
from ankka_flow.ports import fingerprint


class Everything(Streamlet):
    name = "everything"
    description = 'Größe "quoted"'
    z_in = JsonInlet("z-in", schema_name="cart-events.v1")
    a_in = JsonInlet("a-in", schema_name="cart-events.v1")
    out = JsonOutlet("out", schema_name="other")
    second = StringParameter("second")
    first = IntegerParameter("first", default=100, description="A number.")

    def process(self, batch: object) -> None: ...


CANONICAL = """{
  "protocol_version": "1.0",
  "sdk": {
    "name": "fixture",
    "version": "0.0.0"
  },
  "streamlet": {
    "config_parameters": [
      {
        "default_value": "100",
        "description": "A number.",
        "key": "first",
        "type": "INTEGER"
      },
      {
        "key": "second"
      }
    ],
    "description": "Größe \\"quoted\\"",
    "inlets": [
      {
        "contract": {
          "fingerprint": "nXhoFwNZSB7DKScFuZUtZ1gnAYkIxadumsXNHWwbLfM=",
          "format": "json",
          "schema_name": "cart-events.v1"
        },
        "name": "a-in"
      },
      {
        "contract": {
          "fingerprint": "nXhoFwNZSB7DKScFuZUtZ1gnAYkIxadumsXNHWwbLfM=",
          "format": "json",
          "schema_name": "cart-events.v1"
        },
        "name": "z-in"
      }
    ],
    "name": "everything",
    "outlets": [
      {
        "contract": {
          "fingerprint": "@OTHER@",
          "format": "json",
          "schema_name": "other"
        },
        "name": "out"
      }
    ]
  }
}
"""


def test_canonical_json() -> None:
    due = CANONICAL.replace("@OTHER@", fingerprint("other"))
    assert descriptor.write(descriptor.spec_for(Everything, sdk_name="fixture", sdk_version="0.0.0")) == due
    assert descriptor.spec_for(Everything())["sdk"] == {"name": "ankka-flow-python", "version": __version__}
    assert descriptor.validate(descriptor.spec_for(Everything)) == []


def test_fields_at_their_default_are_omitted() -> None:
    class Sink(Streamlet):
        name = "sink"
        inlet = JsonInlet("in", schema_name="s")
        flag = BooleanParameter("flag")

        def process(self, batch: object) -> None: ...

    streamlet = descriptor.spec_for(Sink)["streamlet"]
    assert set(streamlet) == {"name", "inlets", "config_parameters"}
    assert streamlet["config_parameters"] == [{"key": "flag", "type": "BOOLEAN"}]


def changed(path: list[Any], value: Any) -> list[str]:
    spec = copy.deepcopy(descriptor.spec_for(Everything))
    at: Any = spec
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return descriptor.validate(spec)


def test_every_problem_is_named() -> None:
    inlet = ["streamlet", "inlets", 0]
    first = ["streamlet", "config_parameters", 0]
    for path, value, part in (
        (["protocol_version"], "1", "MAJOR.MINOR"),
        (["streamlet", "name"], "-x", "'-x'"),
        (["streamlet", "name"], "x-", "'x-'"),
        (["streamlet", "name"], "X", "'X'"),
        (["streamlet", "name"], "x" * 64, "1 to 63"),
        (["streamlet", "name"], "x\n", "1 to 63"),
        ([*inlet, "name"], "1n", "'1n'"),
        ([*inlet, "name"], "n" * 64, "must match"),
        ([*inlet, "name"], "out", "'out' is declared 2 times"),
        ([*inlet, "contract", "format"], "avro", "'avro'"),
        ([*inlet, "contract", "fingerprint"], "x", "fingerprint"),
        ([*first, "key"], "Key", "'Key'"),
        ([*first, "key"], "second", "'second' is declared 2 times"),
        ([*first, "type"], "DATE", "'DATE'"),
        ([*first, "default_value"], "x", "not an integer"),
    ):
        problems = changed(path, value)
        assert len(problems) == 1 and part in problems[0], (path, value, problems)
    assert changed(["streamlet", "name"], "x" * 63) == [] and changed(["streamlet", "name"], "0") == []
    assert len(descriptor.validate({})) == 2
