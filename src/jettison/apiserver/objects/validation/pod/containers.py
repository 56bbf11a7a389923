"""Containers of pods and templates: regular ones, those that run before them, and those for debugging."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import Any, Final

from jettison.apiserver.objects.validation.configuration import key_complaints
from jettison.apiserver.objects.validation.metadata import label_name, port_name, subdomain_name
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
    unsupported,
)
from jettison.apiserver.objects.validation.pod.security import validate_container_security
from jettison.apiserver.objects.validation.pod.volumes import (
    PULL_POLICIES,
    descending_path,
    field_reference,
    no_backsteps,
    resource_reference,
)
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE, validate_requirements
from jettison.values import frozen

Json = dict[str, Any]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES: Final = ("HTTP", "HTTPS")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")
_RULE_OPERATORS: Final = ("In", "NotIn")
_MOST_RULES: Final = 20
_MOST_EXIT_CODES: Final = 255
_RESIZABLE: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_ONLY_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
_ENVIRONMENT_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_VARIABLE_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_HEADER: Final = "[-A-Za-z0-9]+"
_HEADER_RULE: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    f"(e.g. 'X-Header-Name', regex used for validation is '{_HEADER}')"
)
_PORT_RULE: Final = "must be between 1 and 65535, inclusive"


@frozen
class AroundContainer:
    """What a container's validity depends on, of the pod around it."""

    volumes: dict[str, Json]
    claims: frozenset[str]
    grace_seconds: int | None
    restart_policy: str
    has_host_users: bool
    # The paths of lists and maps that are there and empty.
    empties: Collection[str] = ()
    taken: set[str] = field(default_factory=set)


def validate_containers(spec: Json, where: str, around: AroundContainer) -> Iterator[Mistake]:
    """All of them, in upstream's order. `where` is the path of the spec."""
    containers = spec.get("containers") or ()
    if not containers:
        yield required(f"{where}.containers")
    for index, each in enumerate(containers):
        place = f"{where}.containers[{index}]"
        yield from _validate_container(each, place, around)
        if each["name"] in around.taken:
            yield duplicate(f"{place}.name", each["name"])
        around.taken.add(each["name"])
        yield from _validate_behaviour(each, place, around)
        yield from _validate_restarts(each, place)
    yield from _host_ports(containers, f"{where}.containers")
    for index, each in enumerate(spec.get("initContainers") or ()):
        yield from _validate_init(each, f"{where}.initContainers", index, around)
    others = set(around.taken)
    for index, each in enumerate(spec.get("ephemeralContainers") or ()):
        yield from _validate_ephemeral(each, f"{where}.ephemeralContainers[{index}]", around, others)


def _validate_init(container: Json, where: str, index: int, around: AroundContainer) -> Iterator[Mistake]:
    place, name = f"{where}[{index}]", container["name"]
    yield from _validate_container(container, place, around)
    if "restartPolicy" in container:
        yield from _validate_restarts(container, place)
    elif container.get("restartPolicyRules"):
        yield _unruled(place)
    if name in around.taken:
        yield duplicate(f"{place}.name", name)
    elif name:
        around.taken.add(name)
    # Each runs alone, so its ports are compared among themselves; upstream says so of the first one.
    yield from _host_ports([container], where)
    if container.get("restartPolicy") == "Always":
        yield from _validate_behaviour(container, place, around)
        return
    why = "may not be set for init containers without restartPolicy=Always"
    yield from (forbidden(f"{place}.{key}", why) for key in _ONLY_SIDECARS if key in container)
    for number, policy in enumerate(container.get("resizePolicy") or ()):
        if policy["restartPolicy"] == "RestartContainer":
            why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield invalid(f"{place}.resizePolicy[{number}].restartPolicy", policy["restartPolicy"], why)


def _validate_ephemeral(container: Json, place: str, around: AroundContainer, others: set[str]) -> Iterator[Mistake]:
    name, target = container["name"], container.get("targetContainerName", "")
    yield from _validate_container(container, place, around)
    yield from validate_blanks(container, place)
    if name in around.taken:
        yield duplicate(f"{place}.name", name)
    around.taken.add(name)
    if target and target not in others:
        yield not_found(f"{place}.targetContainerName", target)
    why = "cannot be set for an Ephemeral Container"
    for key in _NOT_EPHEMERAL:
        is_empty = any(f"{each}.".startswith((f"{place}.{key}.", f"{place}.{key}[")) for each in around.empties)
        if container.get(key) or is_empty or (key == "lifecycle" and key in container):
            yield forbidden(f"{place}.{key}", why)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        for key in ("subPath", "subPathExpr"):
            if mount.get(key):
                yield forbidden(f"{place}.volumeMounts[{index}].{key}", why)


def validate_blanks(container: Json, place: str) -> Iterator[Mistake]:
    """No blanks around the name of an image; a template may have them, because its images may be replaced later."""
    image = container.get("image", "")
    if image != image.strip():
        yield invalid(f"{place}.image", image, "must not have leading or trailing whitespace")


def _validate_container(container: Json, place: str, around: AroundContainer) -> Iterator[Mistake]:
    name = container["name"]
    if not name:
        yield required(f"{place}.name")
    else:
        yield from (invalid(f"{place}.name", name, why) for why in label_name(name))
    if not container.get("image"):
        yield required(f"{place}.image")
    yield from one_of(container, "terminationMessagePolicy", place, _MESSAGE_POLICIES)
    yield from _validate_ports(container.get("ports") or (), f"{place}.ports")
    for index, each in enumerate(container.get("env") or ()):
        yield from _validate_variable(each, f"{place}.env[{index}]")
    yield from _validate_variables_from(container.get("envFrom") or (), f"{place}.envFrom")
    yield from _validate_mounts(container, f"{place}.volumeMounts", around.volumes)
    yield from _validate_devices(container, f"{place}.volumeDevices", around.volumes)
    yield from one_of(container, "imagePullPolicy", place, PULL_POLICIES)
    yield from validate_requirements(container["resources"], f"{place}.resources", around.claims)
    yield from _validate_resizing(container.get("resizePolicy") or (), f"{place}.resizePolicy", around)
    if "securityContext" in container:
        yield from validate_container_security(
            container["securityContext"], f"{place}.securityContext", has_host_users=around.has_host_users
        )


def one_of(value: Json, key: str, place: str, allowed: tuple[str, ...]) -> Iterator[Mistake]:
    """A field that must have one of these values."""
    if not value.get(key):
        yield required(f"{place}.{key}")
    elif value[key] not in allowed:
        yield unsupported(f"{place}.{key}", value[key], allowed)


def _validate_ports(ports: Iterable[Json], where: str) -> Iterator[Mistake]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place, name, number = f"{where}[{index}]", port.get("name", ""), port.get("containerPort", 0)
        if name:
            complaints = list(port_name(name))
            yield from (invalid(f"{place}.name", name, why) for why in complaints)
            if not complaints and name in names:
                yield duplicate(f"{place}.name", name)
            elif not complaints:
                names.add(name)
        if not number:
            yield required(f"{place}.containerPort")
        elif not 1 <= number <= 65535:
            yield invalid(f"{place}.containerPort", number, _PORT_RULE)
        on_host = port.get("hostPort", 0)
        if on_host and not 1 <= on_host <= 65535:
            yield invalid(f"{place}.hostPort", on_host, _PORT_RULE)
        yield from one_of(port, "protocol", place, _PROTOCOLS)


def _host_ports(containers: Iterable[Json], where: str) -> Iterator[Mistake]:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in taken:
                yield duplicate(f"{where}[{index}].ports[{number}].hostPort", shown)
            taken.add(shown)


def _variable_name(name: str, place: str) -> Iterator[Mistake]:
    if "=" in name or not all(" " <= char <= "~" for char in name):
        yield invalid(place, name, _VARIABLE_RULE)


def _validate_variable(variable: Json, place: str) -> Iterator[Mistake]:
    if not variable["name"]:
        yield required(f"{place}.name")
    else:
        yield from _variable_name(variable["name"], f"{place}.name")
    source = variable.get("valueFrom")
    if source is None:
        return
    where = f"{place}.valueFrom"
    if "fieldRef" in source:
        yield from field_reference(source["fieldRef"], f"{where}.fieldRef", _ENVIRONMENT_FIELDS)
    if "resourceFieldRef" in source:
        yield from resource_reference(source["resourceFieldRef"], f"{where}.resourceFieldRef")
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in source:
            yield from _key_reference(source[key], f"{where}.{key}")
    if "fileKeyRef" in source:
        yield from _file_reference(source["fileKeyRef"], f"{where}.fileKeyRef")
    if not source:
        why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(where, "", why)
    elif variable.get("value"):
        yield invalid(where, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        yield invalid(where, "", "may not have more than one field specified at a time")


def _key_reference(reference: Json, place: str) -> Iterator[Mistake]:
    name, key = reference.get("name", ""), reference.get("key", "")
    yield from (invalid(f"{place}.name", name, why) for why in subdomain_name(name))
    if not key:
        yield required(f"{place}.key")
    else:
        yield from (invalid(f"{place}.key", key, why) for why in key_complaints(key))


def _file_reference(reference: Json, place: str) -> Iterator[Mistake]:
    if not reference.get("key"):
        yield required(f"{place}.key")
    else:
        yield from _variable_name(reference["key"], f"{place}.key")
    volume = reference.get("volumeName", "")
    if not volume:
        yield required(f"{place}.volumeName")
    else:
        yield from (invalid(f"{place}.volumeName", volume, why) for why in label_name(volume))
    if not reference.get("path"):
        yield required(f"{place}.path")
    else:
        yield from no_backsteps(reference["path"], f"{place}.path")


def _validate_variables_from(sources: Iterable[Json], where: str) -> Iterator[Mistake]:
    for index, each in enumerate(sources):
        place = f"{where}[{index}]"
        if each.get("prefix"):
            yield from _variable_name(each["prefix"], f"{place}.prefix")
        named = [key for key in ("configMapRef", "secretRef") if key in each]
        for key in named:
            name = each[key].get("name", "")
            if not name:
                yield required(f"{place}.{key}.name")
            else:
                yield from (invalid(f"{place}.{key}.name", name, why) for why in subdomain_name(name.removesuffix("-")))
        if not named:
            yield invalid(where, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(named) > 1:
            yield invalid(where, "", "may not have more than one field specified at a time")


def _validate_mounts(container: Json, where: str, volumes: dict[str, Json]) -> Iterator[Mistake]:
    seen: set[str] = set()
    devices = {each["name"]: each["devicePath"] for each in container.get("volumeDevices") or ()}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place, name, path = f"{where}[{index}]", mount["name"], mount["mountPath"]
        if not name:
            yield required(f"{place}.name")
        if name not in volumes:
            yield not_found(f"{place}.name", name)
        if not path:
            yield required(f"{place}.mountPath")
        if path in seen:
            yield invalid(f"{place}.mountPath", path, "must be unique")
        seen.add(path)
        if name in devices:
            yield invalid(f"{place}.name", name, "must not already exist in volumeDevices")
        if path in devices.values():
            yield invalid(f"{place}.mountPath", path, "must not already exist as a path in volumeDevices")
        yield from _validate_mount_options(mount, place, where, container)


def _validate_mount_options(mount: Json, place: str, where: str, container: Json) -> Iterator[Mistake]:
    """Upstream names the list of mounts here, not the mount."""
    if mount.get("subPath"):
        yield from descending_path(mount["subPath"], f"{where}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            why = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{place}.subPathExpr", mount["subPathExpr"], why)
        yield from descending_path(mount["subPathExpr"], f"{where}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            yield unsupported(f"{where}.mountPropagation", propagation, _PROPAGATIONS)
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            why = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(f"{where}.mountPropagation", why)
    recursive = mount.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(f"{where}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(f"{where}.recursiveReadOnly", why)
    elif recursive not in (None, "Disabled"):
        yield unsupported(f"{where}.recursiveReadOnly", recursive, _RECURSIVE)


def _validate_devices(container: Json, where: str, volumes: dict[str, Json]) -> Iterator[Mistake]:
    names: set[str] = set()
    paths: set[str] = set()
    mounts = {each["name"]: each["mountPath"] for each in container.get("volumeMounts") or ()}
    for index, device in enumerate(container.get("volumeDevices") or ()):
        place, name, path = f"{where}[{index}]", device["name"], device["devicePath"]
        if not name:
            yield required(f"{place}.name")
        if name in names:
            yield invalid(f"{place}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{place}.name", name)
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{place}.name", name, why)
        if not path:
            yield required(f"{place}.devicePath")
        if path in paths:
            yield invalid(f"{place}.devicePath", path, "must be unique")
        if ".." in path.split("/"):
            yield invalid(f"{place}.devicePath", path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounts:
            yield invalid(f"{place}.name", name, "must not already exist in volumeMounts")
        if path in mounts.values():
            yield invalid(f"{place}.devicePath", path, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)


def _validate_resizing(policies: Iterable[Json], where: str, around: AroundContainer) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, each in enumerate(policies):
        name, policy = each["resourceName"], each["restartPolicy"]
        if name in seen:
            yield duplicate(f"{where}[{index}]", name)
        seen.add(name)
        for value, allowed in ((name, _RESIZABLE), (policy, _RESIZE_POLICIES)):
            if not value:
                yield required(where)
            elif value not in allowed:
                yield unsupported(where, value, allowed)
        if around.restart_policy == "Never" and policy != "NotRequired":
            yield invalid(where, policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _unruled(place: str) -> Mistake:
    return required(f"{place}.restartPolicy", "must specify restartPolicy when restart rules are used")


def _validate_restarts(container: Json, place: str) -> Iterator[Mistake]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            yield _unruled(place)
    elif policy not in _RESTARTS:
        yield unsupported(f"{place}.restartPolicy", policy, _RESTARTS)
    if len(rules) > _MOST_RULES:
        yield too_many(f"{place}.restartPolicyRules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        where = f"{place}.restartPolicyRules[{index}]"
        if rule.get("action") not in _RULE_ACTIONS:
            yield unsupported(f"{where}.action", rule.get("action", ""), _RULE_ACTIONS)
        codes = rule.get("exitCodes")
        if codes is None:
            yield required(f"{where}.exitCodes", "must be specified")
            continue
        if codes.get("operator") not in _RULE_OPERATORS:
            yield unsupported(f"{where}.exitCodes.operator", codes.get("operator", ""), _RULE_OPERATORS)
        if len(codes.get("values") or ()) > _MOST_EXIT_CODES:
            yield too_many(f"{where}.exitCodes.values", len(codes["values"]), _MOST_EXIT_CODES)


# Hooks and probes.
def _validate_behaviour(container: Json, place: str, around: AroundContainer) -> Iterator[Mistake]:
    hooks = container.get("lifecycle") or {}
    for key in ("postStart", "preStop"):
        if key in hooks:
            yield from _validate_handler(hooks[key], f"{place}.lifecycle.{key}", around.grace_seconds)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            yield from _validate_probe(container[key], f"{place}.{key}", key, around.grace_seconds)


def _validate_probe(probe: Json, place: str, kind: str, grace: int | None) -> Iterator[Mistake]:
    yield from _validate_handler(probe, place, grace)
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(key, 0) < 0:
            yield invalid(f"{place}.{key}", probe[key], NOT_NEGATIVE)
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        yield invalid(f"{place}.terminationGracePeriodSeconds", own, "must be greater than 0")
    if kind == "readinessProbe":
        if own is not None:
            yield invalid(f"{place}.terminationGracePeriodSeconds", own, "must not be set for readinessProbes")
    elif probe.get("successThreshold", 0) != 1:
        yield invalid(f"{place}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def _validate_handler(handler: Json, place: str, grace: int | None) -> Iterator[Mistake]:
    found = [each for each in _HANDLERS if each in handler]
    if not found:
        yield required(place, "must specify a handler type")
        return
    kind, action = found[0], handler[found[0]]
    where = f"{place}.{kind}"
    if kind == "exec" and not action.get("command"):
        yield required(f"{where}.command")
    elif kind == "httpGet":
        yield from _validate_http(action, where)
    elif kind in ("tcpSocket", "grpc"):
        yield from port_or_name(action["port"], f"{where}.port")
    elif kind == "sleep" and grace is not None and not 0 <= action["seconds"] <= grace:
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield invalid(where, action["seconds"], why)
    yield from (forbidden(f"{place}.{extra}", "may not specify more than 1 handler type") for extra in found[1:])


def _validate_http(action: Json, place: str) -> Iterator[Mistake]:
    if not action.get("path"):
        yield required(f"{place}.path")
    yield from port_or_name(action["port"], f"{place}.port")
    if action.get("scheme", "") not in _SCHEMES:
        yield unsupported(f"{place}.scheme", action.get("scheme", ""), _SCHEMES)
    for header in action.get("httpHeaders") or ():
        if not re.fullmatch(_HEADER, header["name"]):
            yield invalid(f"{place}.httpHeaders", header["name"], _HEADER_RULE)


def port_or_name(port: int | str, place: str) -> Iterator[Mistake]:
    """A number, or the name of a port."""
    if isinstance(port, int):
        if not 1 <= port <= 65535:
            yield invalid(place, port, _PORT_RULE)
    else:
        yield from (invalid(place, port, why) for why in port_name(port))
