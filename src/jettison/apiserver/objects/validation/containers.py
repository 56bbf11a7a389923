"""Containers of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, invalid, required, unsupported
from jettison.apiserver.objects.validation.names import label_name, port_name
from jettison.apiserver.objects.validation.resources import validate_requirements

Json = dict[str, Any]

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_HANDLERS: Final = ("exec", "grpc", "httpGet", "sleep", "tcpSocket")


def validate_containers(spec: Json, field: str) -> Iterator[Mistake]:
    """Those of the main list, at least one, and those that run before them."""
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    for index, each in enumerate(spec.get("containers") or ()):
        yield from _validate_container(each, f"{field}.containers[{index}]", volumes, seen)
    for index, each in enumerate(spec.get("initContainers") or ()):
        where = f"{field}.initContainers[{index}]"
        yield from _validate_container(each, where, volumes, seen)
        if each.get("restartPolicy") not in (None, "Always", "Never", "OnFailure"):
            yield unsupported(f"{where}.restartPolicy", each["restartPolicy"], ("Always", "Never", "OnFailure"))


def _validate_container(container: Json, field: str, volumes: set[str], seen: set[str]) -> Iterator[Mistake]:
    name, image = container["name"], container.get("image", "")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from (invalid(f"{field}.name", name, why) for why in label_name(name))
    if not image:
        yield required(f"{field}.image")
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        yield unsupported(
            f"{field}.terminationMessagePolicy", container.get("terminationMessagePolicy", ""), _MESSAGE_POLICIES
        )
    yield from _validate_ports(container.get("ports") or (), f"{field}.ports")
    for index, each in enumerate(container.get("env") or ()):
        yield from _validate_variable(each, f"{field}.env[{index}]")
    yield from _validate_mounts(container.get("volumeMounts") or (), f"{field}.volumeMounts", volumes)
    policy = container.get("imagePullPolicy", "")
    if policy not in _PULL_POLICIES:
        yield unsupported(f"{field}.imagePullPolicy", policy, _PULL_POLICIES)
    yield from validate_requirements(container["resources"], f"{field}.resources")
    if name in seen:
        yield duplicate(f"{field}.name", name)
    seen.add(name)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            yield from _validate_probe(container[probe], f"{field}.{probe}")


def _validate_ports(ports: Any, field: str) -> Iterator[Mistake]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{field}[{index}]", port.get("name", "")
        if name:
            complaints = list(port_name(name))
            yield from (invalid(f"{where}.name", name, why) for why in complaints)
            if not complaints and name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        for key in ("containerPort", "hostPort"):
            number = port.get(key, 0)
            if key == "containerPort" and not number:
                yield required(f"{where}.containerPort")
            elif not 0 <= number <= 65535:
                yield invalid(f"{where}.{key}", number, "must be between 1 and 65535, inclusive")
        if port.get("protocol") not in _PROTOCOLS:
            yield unsupported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS)


def _validate_variable(variable: Json, field: str) -> Iterator[Mistake]:
    name = variable["name"]
    if not name:
        yield required(f"{field}.name")
    elif "=" in name or not all(" " <= char <= "~" for char in name):
        why = (
            "a valid environment variable name must consist only of printable ASCII characters other than '=' "
            "(e.g. 'my-name',  or 'MY.NAME',  or 'MyName.1', regex used for validation is '[ -<>-~]+')"
        )
        yield invalid(f"{field}.name", name, why)
    if variable.get("value") and "valueFrom" in variable:
        yield invalid(f"{field}.valueFrom", "", "may not be specified when `value` is not empty")


def _validate_mounts(mounts: Any, field: str, volumes: set[str]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{field}[{index}]"
        if not mount["name"]:
            yield required(f"{where}.name")
        elif mount["name"] not in volumes:
            yield Mistake(f"{where}.name", "FieldValueNotFound", f'Not found: "{mount["name"]}"')
        if not mount["mountPath"]:
            yield required(f"{where}.mountPath")
        elif mount["mountPath"] in seen:
            yield invalid(f"{where}.mountPath", mount["mountPath"], "must be unique")
        seen.add(mount["mountPath"])


def _validate_probe(probe: Json, field: str) -> Iterator[Mistake]:
    handlers = [each for each in _HANDLERS if each in probe]
    if not handlers:
        yield required(field, "must specify a handler type")
    for extra in handlers[1:]:
        yield Mistake(f"{field}.{extra}", "FieldValueForbidden", "Forbidden: may not specify more than 1 handler type")
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(key, 0) < 0:
            yield invalid(f"{field}.{key}", probe[key], "must be greater than or equal to 0")
