"""What the operating system of a pod allows, and the options that only Windows has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import subdomain_name
from jettison.apiserver.objects.validation.mistakes import Mistake, Pointed, forbidden, invalid, required, unsupported

Json = dict[str, Any]

_SYSTEMS: Final = ("linux", "windows")
_MOST_CREDENTIAL_KIB: Final = 64
_LONGEST_DOMAIN: Final = 256
_LONGEST_USER: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_PART: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_DOTS_AND_SPACES: Final = re.compile("[. ]+")
_NO_USER: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')

# What Windows does not know, in upstream's order: in the security context of a pod, in its spec, in a container's.
_OF_PODS: Final = (
    ("securityContext", "appArmorProfile"), ("securityContext", "seLinuxOptions"), ("", "hostUsers"), ("", "hostPID"),
    ("", "hostIPC"), ("securityContext", "seccompProfile"), ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"), ("securityContext", "sysctls"), ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"), ("securityContext", "runAsGroup"), ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"), ("securityContext", "seLinuxChangePolicy"),
)  # fmt: skip
_OF_CONTAINERS: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip


def containers_of(spec: Json, field: str) -> Iterator[tuple[str, Json]]:
    """Every container, in the order in which upstream visits them, with its place."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            yield f"{field}.{key}[{index}]", container


def validate_system(spec: Json, field: str) -> Iterator[Mistake]:
    """A pod that names its system has only what that knows."""
    if "os" not in spec:
        return
    system = spec["os"].get("name", "")
    if not system:
        yield required(f"{field}.os.name")
    elif system not in _SYSTEMS:
        yield unsupported(f"{field}.os", system, _SYSTEMS)
    elif system == "linux":
        for where, context in ((field, spec), *containers_of(spec, field)):
            if "windowsOptions" in context.get("securityContext", ()):
                where = f"{where}.securityContext.windowsOptions"
                yield forbidden(where, "windows options cannot be set for a linux pod")
    else:
        yield from _validate_windows(spec, field)


def _validate_windows(spec: Json, field: str) -> Iterator[Mistake]:
    why = "cannot be set for a windows pod"
    for holder, key in _OF_PODS:
        if key in (spec.get(holder, ()) if holder else spec):
            yield forbidden(".".join(filter(None, (field, holder, key))), why)
    for where, container in containers_of(spec, field):
        for key in _OF_CONTAINERS:
            if key in container.get("securityContext", ()):
                yield forbidden(f"{where}.securityContext.{key}", why)


def validate_windows_options(context: Json, field: str) -> Iterator[Mistake]:
    """In the security context of a pod or a container."""
    options = context.get("windowsOptions") or {}
    where = f"{field}.windowsOptions"
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        yield from (invalid(f"{where}.gmsaCredentialSpecName", Pointed(name), why) for why in subdomain_name(name))
    if (content := options.get("gmsaCredentialSpec")) is not None:
        if not content:
            yield invalid(f"{where}.gmsaCredentialSpec", content, "gmsaCredentialSpec cannot be an empty string")
        elif len(content.encode()) > _MOST_CREDENTIAL_KIB * 1024:
            why = f"gmsaCredentialSpec size must be under {_MOST_CREDENTIAL_KIB} KiB"
            yield invalid(f"{where}.gmsaCredentialSpec", Pointed(content), why)
    if (user := options.get("runAsUserName")) is not None:
        told = (f"runAsUserName{why}" for why in _user_complaints(user))
        yield from (invalid(f"{where}.runAsUserName", Pointed(user), why) for why in told)


def _user_complaints(name: str) -> Iterator[str]:
    if not name:
        yield " cannot be an empty string"
        return
    if _CONTROL.search(name):
        yield " cannot contain control characters"
        return
    if name.count("\\") > 1:
        yield " cannot contain more than one backslash"
        return
    domain, backslash, user = name.rpartition("\\")
    if len(domain.encode()) >= _LONGEST_DOMAIN:
        yield f"'s Domain length must be under {_LONGEST_DOMAIN} characters"
    if backslash and not _NET_BIOS.fullmatch(domain) and not _DNS.fullmatch(domain):
        yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif len(user.encode()) > _LONGEST_USER:
        yield f"'s User length must not be longer than {_LONGEST_USER} characters"
    if _DOTS_AND_SPACES.fullmatch(user):
        yield "'s User cannot contain only periods or spaces"
    if _NO_USER.search(user):
        yield r"""'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"""


def validate_host_processes(spec: Json, field: str) -> Iterator[Mistake]:
    """Containers of Windows that are processes of the host: all of a pod, on the network of the host."""

    def wanted(holder: Json) -> bool | None:
        options = (holder.get("securityContext") or {}).get("windowsOptions") or {}
        found: bool | None = options.get("hostProcess")
        return found

    of_pod, count, counted = wanted(spec), 0, 0
    for where, container in containers_of(spec, field):
        own = wanted(container)
        if None not in (of_pod, own) and own is not of_pod:
            why = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            yield invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, why)
        count += 1
        counted += bool(of_pod if own is None else own)
    if not counted:
        return
    if counted != count:
        why = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield invalid(field, "", why)
    if not spec.get("hostNetwork"):
        why = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{field}.hostNetwork", False, why)
