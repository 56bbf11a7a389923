"""Users, groups, capabilities and profiles: the security contexts of pods and containers, and sysctls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.go_values import go_value
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from jettison.apiserver.objects.validation.pod.systems import containers_of, validate_windows_options
from jettison.apiserver.objects.validation.pod.volumes import descending_path

Json = dict[str, Any]

_LARGEST_ID: Final = 2**31 - 1
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_GROUP_CHANGES: Final = ("Always", "OnRootMismatch")
_GROUP_POLICIES: Final = ("Merge", "Strict")
# `MountOption` waits for a feature that is off in Kubernetes.
_LABEL_CHANGES: Final = ("Recursive",)
_PROC_MOUNTS: Final = ("Default", "Unmasked")
LONGEST_PROFILE: Final = 4095
_LONGEST_SYSCTL: Final = 253
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({_SYSCTL_PART}[\./])*{_SYSCTL_PART}"
# The sysctls that belong to the network of a pod, and those of its shared memory.
_IPC: Final = ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")


def validate_container_security(context: Json, field: str, *, has_host_users: bool) -> Iterator[Mistake]:
    """Of one container."""
    yield from validate_ids(context, field, ("runAsUser", "runAsGroup"))
    mount = context.get("procMount")
    if mount is not None:
        if mount not in _PROC_MOUNTS:
            yield unsupported(f"{field}.procMount", mount, _PROC_MOUNTS)
        if has_host_users and mount == "Unmasked":
            yield invalid(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(context, field)
    if context.get("allowPrivilegeEscalation") is False:
        why = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid(field, go_value("SecurityContext", context), f"{why} `privileged` to true")
        for each in (context.get("capabilities") or {}).get("add") or ():
            if each == "CAP_SYS_ADMIN":
                yield invalid(field, go_value("SecurityContext", context), f"{why} `capabilities.Add` CAP_SYS_ADMIN")
    yield from validate_windows_options(context, field)
    yield from _app_armor(context, field)


def validate_pod_security(spec: Json, field: str) -> Iterator[Mistake]:
    """Of a pod as a whole."""
    context = spec.get("securityContext") or {}
    yield from validate_ids(context, field, ("fsGroup", "runAsUser", "runAsGroup"))
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{field}.shareProcessNamespace", True, why)
    yield from _sysctls(spec, context.get("sysctls") or (), f"{field}.sysctls")
    yield from _one_of(context, "fsGroupChangePolicy", field, _GROUP_CHANGES)
    yield from _seccomp(context, field)
    yield from validate_windows_options(context, field)
    yield from _app_armor(context, field)
    yield from _one_of(context, "supplementalGroupsPolicy", field, _GROUP_POLICIES)
    yield from _one_of(context, "seLinuxChangePolicy", field, _LABEL_CHANGES)


_ID_RULE: Final = f"must be between 0 and {_LARGEST_ID}, inclusive"


def validate_ids(context: Json, field: str, keys: tuple[str, ...]) -> Iterator[Mistake]:
    """Numbers of users and groups under these keys, and of supplemental groups where there are any."""
    for key in keys:
        value = context.get(key)
        if value is not None and not 0 <= value <= _LARGEST_ID:
            yield invalid(f"{field}.{key}", value, _ID_RULE)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _LARGEST_ID:
            yield invalid(f"{field}.supplementalGroups[{index}]", group, _ID_RULE)


def _one_of(context: Json, key: str, field: str, allowed: tuple[str, ...]) -> Iterator[Mistake]:
    if key in context and context[key] not in allowed:
        yield unsupported(f"{field}.{key}", context[key], allowed)


def _seccomp(context: Json, field: str) -> Iterator[Mistake]:
    profile = context.get("seccompProfile")
    if profile is None:
        return
    where, kind, path = f"{field}.seccompProfile", profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield required(f"{where}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield unsupported(f"{where}.type", kind, _PROFILE_TYPES)
    if kind == "Localhost":
        if path is None:
            yield required(f"{where}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from descending_path(path, f"{where}.localhostProfile")
    elif path is not None:
        why = "can only be set when seccomp type is Localhost"
        yield invalid(f"{where}.localhostProfile", go_value("SeccompProfile", profile), why)


def _app_armor(context: Json, field: str) -> Iterator[Mistake]:
    profile = context.get("appArmorProfile")
    if profile is None:
        return
    where, kind, path = f"{field}.appArmorProfile", profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if not path:
            yield required(f"{where}.localhostProfile", "must be set when AppArmor type is Localhost")
        elif path != path.strip():
            yield invalid(f"{where}.localhostProfile", path, "must not be padded with whitespace")
        if path and len(path.encode()) > LONGEST_PROFILE:
            yield too_long(f"{where}.localhostProfile", LONGEST_PROFILE)
    elif kind in _PROFILE_TYPES:
        if path is not None:
            yield invalid(f"{where}.localhostProfile", path, "can only be set when AppArmor type is Localhost")
    elif not kind:
        yield required(f"{where}.type", "type is required when appArmorProfile is set")
    else:
        yield unsupported(f"{where}.type", kind, _PROFILE_TYPES)


def _sysctls(spec: Json, sysctls: Any, field: str) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, each in enumerate(sysctls):
        name, where = each["name"], f"{field}[{index}].name"
        if not name:
            yield required(where)
        elif len(name) > _LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            yield invalid(where, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$")
        elif name in seen:
            yield duplicate(where, name)
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and plain.startswith(_IPC):
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


def validate_host_users(spec: Json, field: str) -> Iterator[Mistake]:
    """A pod with users of its own shares neither the network nor the processes of its host."""
    if spec.get("hostUsers", True):
        return
    for key, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(key):
            yield forbidden(f"{field}.{shown}", "when `hostUsers` is false")
    for where, container in containers_of(spec, field):
        if container.get("volumeDevices"):
            yield forbidden(f"{where}.volumeDevices", "when `hostUsers` is false")
