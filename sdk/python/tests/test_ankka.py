"""Streamlets written for Ankka run unchanged: its public examples in other words, tested as its documentation does.

The projects in ``ankka/src`` use nothing that this SDK adds.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
import json as plain
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ankka_flow
import ankka_flow.testkit  # not imported by the package itself
from ankka_flow import Record, Streamlet, _descriptor, graph, json, ports
from ankka_flow.testkit import Harness, hash_partitioner
from process import SRC, TIMEOUT, Spawn, row

PROJECTS = Path(__file__).parent / "ankka" / "src"
NAMES = ("carts.router:CartRouter", "checkout_feed.feed:CheckoutFeed", "checkout_graph.mapper:CheckoutGraph",
         "echo.streamlet:Echo")  # fmt: skip
AT = 1_790_000_000_000
WHEN = "2026-09-21T14:13:20.000+00:00"
CHECKOUT = json.dumps({"cartId": "c", "checkedOutAt": WHEN})


NAMES_OF_ANKKA = """
Streamlet(): Streamlet.name Streamlet.description Streamlet.config
Streamlet.process(self batch)
Streamlet.inlets() Streamlet.outlets() Streamlet.parameters() Streamlet.configure(self values)
JsonInlet(name schema_name) JsonOutlet(name schema_name)
JsonOutlet.emit(self record value key headers)
GraphDeltaOutlet(name)
GraphDeltaOutlet.node(self record id version labels properties)
GraphDeltaOutlet.edge(self record id version type from_id to_id properties)
GraphDeltaOutlet.tombstone_node(self record id version)
GraphDeltaOutlet.tombstone_edge(self record id version type from_id to_id)
graph.node_key(id) graph.edge_key(id) graph.read(record) graph.SCHEMA_NAME graph.PropertyValue
graph.Delta(kind element id version labels type from_id to_id properties key)
Parameter(key default description)
StringParameter(key default description) IntegerParameter(key default description)
DoubleParameter(key default description) BooleanParameter(key default description)
DurationParameter(key default description) MemorySizeParameter(key default description)
Parameter.type_name Parameter.render(self value) Parameter.parse(self text) Parameter.from_json(self value)
Config(values) Config.get(self key) Config.as_dict(self) Config.resolve(parameters values)
Config.__getitem__(self parameter)
Record(value key headers offset timestamp_ms) Batch(inlet partition records) Emit(outlet record)
serve(streamlet port block workers) Server.stop(self grace) Server.wait(self)
json.loads(data) json.dumps(obj) PROTOCOL_VERSION __version__
testkit.Harness(streamlet config) testkit.Harness.inlet(self name) testkit.Harness.outlet(self name)
testkit.Harness.run(self partitions max_records)
testkit.InletQueue.put(self value key headers) testkit.InletQueue(name pending) testkit.OutletRecords(name records)
testkit.Failure(batch error) testkit.hash_partitioner(partitions)
parameters.parse_duration(text) parameters.parse_memory_size(text) ports.fingerprint(schema_name)
descriptor.spec_for(streamlet sdk_name sdk_version) descriptor.write(spec) descriptor.validate(spec)
descriptor.PROTOCOL_VERSION descriptor.SDK_NAME
"""


def test_every_public_name_of_ankka_is_here_and_takes_what_it_takes_there() -> None:
    missing = []
    for path, parameters in re.findall(r"([\w.]+)(?:\(([^)]*)\))?:?", NAMES_OF_ANKKA):
        thing: Any = ankka_flow
        for part in path.split("."):
            thing = getattr(thing, part, None) or vars(Streamlet).get("__annotations__", {}).get(part)
        if thing is None and path != "Streamlet.description":
            missing.append(path)
        elif callable(thing) and parameters:
            taken = list(inspect.signature(thing).parameters)
            missing += [f"{path}({name})" for name in parameters.split() if name not in taken]
    assert missing == []
    assert issubclass(ankka_flow.Streamlet, abc.ABC)


def test_what_is_documented_of_the_values() -> None:
    assert ankka_flow.PROTOCOL_VERSION == "1.0" and Streamlet.description == ""
    record = Record(b"v")
    assert (record.key, record.headers, record.offset, record.timestamp_ms) == (None, [], -1, 0)
    assert all(map(dataclasses.is_dataclass, (Record, ankka_flow.Batch, ankka_flow.Emit, graph.Delta)))
    parameter: ankka_flow.Parameter[Any] = ankka_flow.DurationParameter("d", default=timedelta(seconds=5))
    assert (parameter.key, parameter.default_value, parameter.type_name, parameter.description) == (
        "d", "5000 ms", "DURATION", "",
    )  # fmt: skip
    port = ankka_flow.JsonInlet("in", schema_name="s")
    assert (port.name, port.format, port.schema_name, port.fingerprint) == ("in", "json", "s", ports.fingerprint("s"))


@pytest.fixture(autouse=True)
def _projects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECTS))


def make(name: str) -> Streamlet:
    return _descriptor.load(next(full for full in NAMES if full.startswith(f"{name}.")))()


def cart(total: int, **more: object) -> bytes:
    return json.dumps({"total": total, **more})


def notice(name: str, at: int = AT) -> bytes:
    return json.dumps({"cartId": name, "at": at})


def test_the_cart_router_routes_by_total() -> None:
    h = Harness(make("carts"), config={"review-threshold": 50})
    h.inlet("in").put(key=b"c1", value=cart(10), headers=[("ce_type", b"ItemAdded")])
    h.inlet("in").put(key=b"c2", value=cart(99))
    h.inlet("in").put(key=b"c3", value=cart(50))
    h.run()
    assert [r.key for r in h.outlet("valid").records] == [b"c1", b"c3"]
    assert [r.key for r in h.outlet("review").records] == [b"c2"]
    assert h.outlet("valid").records[0].headers == [("ce_type", b"ItemAdded")]
    h.inlet("in").put(value=b"not json")
    h.run()
    assert [(len(f.batch), type(f.error)) for f in h.failures] == [(1, plain.JSONDecodeError)]


@pytest.mark.parametrize("project", ["carts", "checkout_feed"])
def test_each_cart_stays_in_order(project: str) -> None:
    h = Harness(make(project))
    for i in range(50):
        name = f"cart-{i % 10}"
        value = json.dumps({"cartId": name, "at": AT + i, "total": i * 5})
        h.inlet("in").put(key=name.encode(), value=value)
    h.run(partitions=hash_partitioner(3), max_records=7)
    assert h.failures == [] and h.skipped == [] and len(h.batches) > 7
    for outlet in type(h.streamlet).outlets():
        records = h.outlet(outlet.name).records
        for key in {r.key for r in records}:
            values = [r.value or b"" for r in records if r.key == key]
            assert values == sorted(values, key=lambda v: (len(v), v))
    assert sum(len(h.outlet(o.name).records) for o in type(h.streamlet).outlets()) == 50


def test_the_feed_makes_checkouts_and_skips_what_is_no_notice() -> None:
    h = Harness(make("checkout_feed"))
    h.inlet("in").put(key=b"c1", value=notice("c1"), headers=[("ce-id", b"n-1")])
    for wrong in (b"not json", b'{"cartId": "c2"}', b'["c2"]', b"", None):
        h.inlet("in").put(key=b"c2", value=wrong)
    h.run()
    [checkout] = h.outlet("checkouts").records
    assert (checkout.key, checkout.headers) == (b"c1", [("ce-id", b"n-1")])
    assert json.loads(checkout.value) == {"cartId": "c1", "checkedOutAt": WHEN}
    assert h.failures == [] and [r.key for r in h.skipped] == [b"c2"] * 5


def test_the_mapper_makes_a_cart_a_checkout_and_their_edge() -> None:
    h = Harness(make("checkout_graph"))
    h.inlet("in").put(key=b"c1", value=notice("c1"), headers=[("ce-id", b"n-1")])
    h.inlet("in").put(key=b"c2", value=b"not json")
    h.run()
    records = h.outlet("deltas").records
    checkout_id = f"checkout:c1:{AT}"
    assert [graph.read(r) for r in records] == [
        graph.Delta("node", "node", "cart:c1", AT, ("Cart",), properties={"cartId": "c1"}, key=b"node:cart:c1"),
        graph.Delta("node", "node", checkout_id, AT, ("Checkout",), properties={"cartId": "c1", "checkedOutAt": WHEN},
                    key=f"node:{checkout_id}".encode()),
        graph.Delta("edge", "edge", f"checked-out:c1:{AT}", AT, type="CHECKED_OUT", from_id="cart:c1",
                    to_id=checkout_id, key=f"edge:checked-out:c1:{AT}".encode()),
    ]  # fmt: skip
    assert [r.headers for r in records] == [[("ce-id", b"n-1")]] * 3
    assert h.failures == [] and [r.key for r in h.skipped] == [b"c2"]


def test_the_mapper_keeps_the_order_of_each_element() -> None:
    h = Harness(make("checkout_graph"))
    for i in range(30):
        h.inlet("in").put(key=b"c%d" % (i % 5), value=notice(f"c{i % 5}", AT + i))
    h.run(partitions=hash_partitioner(3), max_records=4)
    versions: dict[bytes, list[int]] = {}
    for delta in map(graph.read, h.outlet("deltas").records):
        versions.setdefault(delta.key, []).append(delta.version)
    assert all(each == sorted(each) for each in versions.values())
    assert [len(versions[b"node:cart:c%d" % i]) for i in range(5)] == [6] * 5


def test_the_template_forwards() -> None:
    h = Harness(make("echo"))
    h.inlet("in").put(key=b"k", value=b'{"n": 1}', headers=[("ce_type", b"Thing")])
    h.run()
    assert [(r.value, r.headers) for r in h.outlet("out").records] == [(b'{"n": 1}', [("ce_type", b"Thing")])]


MAIN = f"""
import sys, runpy
sys.path.insert(0, {str(PROJECTS)!r})
runpy.run_module("%s.main", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("project", "value", "due"),
    [
        ("carts", cart(101), [["forward", 1, "review", None]]),
        ("echo", b"\xff", [["forward", 1, "out", None]]),
        ("checkout_feed", notice("c"), [["emit", 1, "checkouts", [[b"k", CHECKOUT]]]]),
        ("checkout_feed", b"{", []),
        ("checkout_graph", b"{", []),
    ],
)  # fmt: skip
def test_served_as_their_main_does(spawn: Spawn, project: str, value: bytes, due: list[Any]) -> None:
    process = spawn(MAIN % project)
    spec = process.start(config={"review-threshold": 100} if project == "carts" else {})
    assert spec[1]["sdk"]["name"] == "ankka-flow-python"
    process.batch(1, [row(3, value, b"k")])
    assert process.until(lambda m: m[0] in ("ack", "fail")) == [*due, ["ack", 1]]
    process.end_input()
    assert process.wait() == 0
    assert ("offset 3 is no checkout notice" in process.stderr()) == (due == [])


def test_the_console_scripts_of_an_installed_package(tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"  # a copy, for building leaves files behind
    shutil.copytree(SRC.parent, sdk, ignore=shutil.ignore_patterns("tests", ".*", "build", "*.egg-info"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    scripts = tmp_path / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", str(scripts / "python")]
    subprocess.run([*pip, "install", str(sdk)], check=True)
    project = tmp_path / "project"
    shutil.copytree(PROJECTS, project / "src")
    (project / "pyproject.toml").write_text(f'[tool.ankka-flow]\nstreamlet = "{NAMES[2]}"\n')

    def run(*command: str) -> tuple[int, str]:
        done = subprocess.run(
            [scripts / command[0], *command[1:]],
            cwd=project,
            env={"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    assert run("descriptor") == (0, "wrote flow/descriptor.json\n")
    assert '"schema_name": "ankka.graph-delta.v1"' in (project / "flow" / "descriptor.json").read_text()
    assert run("descriptor", "--check") == (0, "flow/descriptor.json is up to date\n")
    code, text = run("conformance")
    assert code == 127 and "ankka-flow is neither on the PATH nor here" in text
    (project / "ankka-flow").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    (project / "ankka-flow").chmod(0o755)
    code, text = run("conformance", "--list")
    assert code == 7 and text.split("\n")[:3] == ["conformance", "--list", "--"]
    assert text.endswith("-m\nankka_flow._conformance\n")
