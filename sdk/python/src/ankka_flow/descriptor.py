"""The descriptor: a streamlet's declaration, and its canonical JSON.

Run as a module it is not; ``ankka-flow descriptor -- python streamlet.py`` asks the process and prints this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ._version import PROTOCOL_VERSION, __version__
from .parameters import (
    BooleanParameter,
    DoubleParameter,
    DurationParameter,
    IntegerParameter,
    MemorySizeParameter,
    Parameter,
    StringParameter,
)
from .ports import Port, fingerprint
from .streamlet import Streamlet

SDK_NAME = "ankka-flow-python"

_STREAMLET_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_KEY = re.compile(r"[a-z][a-z0-9-]*")
_VERSION = re.compile(r"[0-9]+\.[0-9]+")
_TYPES: dict[str, type[Parameter[Any]]] = {
    kind.type_name: kind
    for kind in (
        StringParameter,
        IntegerParameter,
        DoubleParameter,
        BooleanParameter,
        DurationParameter,
        MemorySizeParameter,
    )
}


def spec_for(
    streamlet: Streamlet | type[Streamlet], *, sdk_name: str = SDK_NAME, sdk_version: str | None = None
) -> dict[str, Any]:
    """The descriptor of a streamlet as it stands in the JSON: fields at their default are left out.

    Ports are sorted by name and parameters by key. ``sdk_version`` None: this package's.
    """
    cls = streamlet if isinstance(streamlet, type) else type(streamlet)
    parameters = sorted(cls.parameters(), key=lambda parameter: parameter.key)
    return {
        "protocol_version": PROTOCOL_VERSION,
        "sdk": _set({"name": sdk_name, "version": __version__ if sdk_version is None else sdk_version}),
        "streamlet": _set(
            {
                "name": getattr(cls, "name", ""),
                "description": cls.description,
                "inlets": _ports(cls.inlets()),
                "outlets": _ports(cls.outlets()),
                "config_parameters": [_parameter(parameter) for parameter in parameters],
            }
        ),
    }


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", [])}


def _ports(ports: list[Any]) -> list[dict[str, Any]]:
    def shape(port: Port) -> dict[str, Any]:
        contract = {"format": port.format, "schema_name": port.schema_name, "fingerprint": port.fingerprint}
        return {"name": port.name, "contract": _set(contract)}

    return [shape(port) for port in sorted(ports, key=lambda port: str(port.name))]


def _parameter(parameter: Parameter[Any]) -> dict[str, Any]:
    return _set(
        {
            "key": parameter.key,
            "description": parameter.description,
            "type": "" if parameter.type_name == "STRING" else parameter.type_name,
            "default_value": parameter.default_value,
        }
    )


def write(spec: Mapping[str, Any]) -> str:
    """Canonical JSON: the text that every SDK writes for the same declaration, one trailing newline included."""
    return json.dumps(spec, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def validate(spec: Mapping[str, Any]) -> list[str]:
    """Every problem of a descriptor, a sentence each; empty when it is valid."""
    problems: list[str] = []
    if not _VERSION.fullmatch(spec.get("protocol_version", "")):
        problems.append(f"protocol_version {spec.get('protocol_version', '')!r} must be MAJOR.MINOR")
    streamlet = spec.get("streamlet", {})
    name = streamlet.get("name", "")
    if not _STREAMLET_NAME.fullmatch(name):
        problems.append(f"streamlet name {name!r} must be 1 to 63 of [a-z0-9-], with no hyphen at an end")
    ports = [("inlet", port) for port in streamlet.get("inlets", [])]
    ports += [("outlet", port) for port in streamlet.get("outlets", [])]
    for kind, port in ports:
        problems += _port_problems(kind, port)
    problems += _repeated("port", [port.get("name", "") for _, port in ports])
    parameters = streamlet.get("config_parameters", [])
    for parameter in parameters:
        problems += _parameter_problems(parameter)
    return problems + _repeated("parameter", [parameter.get("key", "") for parameter in parameters])


def _port_problems(kind: str, port: Mapping[str, Any]) -> list[str]:
    problems = []
    name, contract = port.get("name", ""), port.get("contract", {})
    if not _PORT_NAME.fullmatch(name):
        problems.append(f"{kind} name {name!r} must match [a-z][a-z0-9-]{{0,62}}")
    if contract.get("format") != "json":
        problems.append(f"{kind} {name!r} has format {contract.get('format', '')!r}; this version knows json")
    if contract.get("fingerprint") != fingerprint(contract.get("schema_name", "")):
        problems.append(f"{kind} {name!r}: the fingerprint is not that of {contract.get('schema_name', '')!r}")
    return problems


def _parameter_problems(parameter: Mapping[str, Any]) -> list[str]:
    key, type_name = parameter.get("key", ""), parameter.get("type", "STRING")
    problems = []
    if not _KEY.fullmatch(key):
        problems.append(f"parameter key {key!r} must match [a-z][a-z0-9-]*")
    if type_name not in _TYPES:
        return [*problems, f"parameter {key!r} has type {type_name!r}, which this version does not know"]
    try:
        if parameter.get("default_value"):
            _TYPES[type_name]("key").parse(parameter["default_value"])
    except ValueError as error:
        problems.append(f"parameter {key!r}: the default {error}")
    return problems


def _repeated(what: str, names: list[str]) -> list[str]:
    return [
        f"{what} {name!r} is declared {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1
    ]
