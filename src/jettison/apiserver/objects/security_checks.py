"""The Pod Security Standards as a table: one row for each check, with its level and what each version of it forbids.

A check looks at a pod and says why it is forbidden, shortly and in detail, in Kubernetes' words; None: it is not. The
standards change with the releases of Kubernetes, and a namespace may stay with those of an older one: of each row the
last version counts that is not newer. At the level `restricted` the checks of `baseline` hold as well, but for those
that a row replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple

from jettison.engine.numbers.strconv import quote

Json = dict[str, Any]

BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"

_ALL: Final = "ALL"
_BIND: Final = "NET_BIND_SERVICE"
_CAPABILITIES: Final = frozenset((
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", _BIND, "SETFCAP", "SETGID",
    "SETPCAP", "SETUID", "SYS_CHROOT",
))  # fmt: skip
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_APPARMOR_KEY: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_KEY: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_KEY: Final = "container.seccomp.security.alpha.kubernetes.io/"
_SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t")
_SYSCTLS: Final = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)  # fmt: skip
_SYSCTLS_27: Final = (*_SYSCTLS, "net.ipv4.ip_local_reserved_ports")
_SYSCTLS_29: Final = (
    *_SYSCTLS_27, "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
)  # fmt: skip
_SYSCTLS_32: Final = (*_SYSCTLS_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
_VOLUMES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
# In the order in which they are looked for.
_OTHER_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


class SecurityViolation(NamedTuple):
    """Why a pod is forbidden."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class SecuredPod(NamedTuple):
    """What the checks look at: a pod, or the template of a workload."""

    annotations: Mapping[str, str]
    spec: Json

    @property
    def containers(self) -> Iterator[Json]:
        """All of them, in the order in which complaints name them."""
        for key in ("initContainers", "containers", "ephemeralContainers"):
            yield from self.spec.get(key) or ()

    @property
    def is_for_windows(self) -> bool:
        """Then much of this has no meaning, and is refused by validation."""
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether its root is none on the node."""
        return self.spec.get("hostUsers") is False


def secured_pod(pod: Json) -> SecuredPod:
    """Of a pod or a template."""
    return SecuredPod((pod.get("metadata") or {}).get("annotations") or {}, pod.get("spec") or {})


_Check = Callable[[SecuredPod], SecurityViolation | None]


class SecurityCheck(NamedTuple):
    """One row: from which minor release on which check is made, and which ones of `baseline` it then replaces."""

    level: str
    versions: tuple[tuple[int, _Check], ...]
    replaces: str = ""

    def at(self, minor: int) -> _Check | None:
        """What that release checks."""
        found = [check for since, check in self.versions if since <= minor]
        return found[-1] if found else None


def _context(holder: Json) -> Json:
    return holder.get("securityContext") or {}


def _joined(names: Iterable[str]) -> str:
    listed = list(names)
    return '"' + '", "'.join(listed) + '"' if listed else ""


def _several(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _named(names: list[str], what: str = "container") -> str:
    return f"{_several(what, what + 's', len(names))} {_joined(names)}"


def _bad_containers(pod: SecuredPod, is_bad: Callable[[Json], bool]) -> list[str]:
    return [each["name"] for each in pod.containers if is_bad(each)]


def _setters(pod: SecuredPod, is_bad: Callable[[Json], bool]) -> list[str]:
    """The pod and the containers whose security context is bad, as complaints name them."""
    found = ["pod"] if is_bad(_context(pod.spec)) else []
    if bad := _bad_containers(pod, lambda container: is_bad(_context(container))):
        found.append(_named(bad))
    return found


def _escalation(pod: SecuredPod) -> SecurityViolation | None:
    bad = _bad_containers(pod, lambda each: _context(each).get("allowPrivilegeEscalation") is not False)
    detail = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return SecurityViolation("allowPrivilegeEscalation != false", detail) if bad else None


def _wrong_profiles(pod: SecuredPod, key: str) -> tuple[list[str], list[str]]:
    """What sets a profile of a type that is not allowed, and the types."""
    values: set[str] = set()

    def is_bad(context: Json) -> bool:
        profile = context.get(key)
        if profile is None or profile.get("type", "") in _PROFILES:
            return False
        values.add(profile.get("type", ""))
        return True

    return _setters(pod, is_bad), sorted(values)


def _apparmor(pod: SecuredPod) -> SecurityViolation | None:
    setters, values = _wrong_profiles(pod, "appArmorProfile")
    annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR_KEY) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    listed = [*values, *annotations]
    if annotations:
        setters.append(_several("annotation", "annotations", len(annotations)))
    if not setters:
        return None
    reason = _several("forbidden AppArmor profile", "forbidden AppArmor profiles", len(listed))
    return SecurityViolation(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_joined(listed)}")


def _added(container: Json) -> list[str]:
    return (_context(container).get("capabilities") or {}).get("add") or []


def _adding(pod: SecuredPod, allowed: Iterable[str]) -> str:
    """Which containers add other capabilities; empty: none."""
    known = frozenset(allowed)
    bad = _bad_containers(pod, lambda each: not known.issuperset(_added(each)))
    surplus = sorted({name for each in pod.containers for name in _added(each)} - known)
    return f"{_named(bad)} must not include {_joined(surplus)} in securityContext.capabilities.add" if bad else ""


def _capabilities(pod: SecuredPod) -> SecurityViolation | None:
    detail = _adding(pod, _CAPABILITIES)
    return SecurityViolation("non-default capabilities", detail) if detail else None


def _restricted_capabilities(pod: SecuredPod) -> SecurityViolation | None:
    keeping = _bad_containers(
        pod, lambda each: _ALL not in ((_context(each).get("capabilities") or {}).get("drop") or ())
    )
    details = [f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    details += filter(None, (_adding(pod, (_BIND,)),))
    return SecurityViolation("unrestricted capabilities", "; ".join(details)) if details else None


def _host_namespaces(pod: SecuredPod) -> SecurityViolation | None:
    shared = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key)]
    return SecurityViolation("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(pod: SecuredPod) -> SecurityViolation | None:
    bad = [each["name"] for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None]
    return SecurityViolation("hostPath volumes", _named(bad, "volume")) if bad else None


def _uses(bad: list[str], what: str, kind: str, kinds: str, used: Iterable[str]) -> str:
    listed = list(used)
    return f"{_named(bad, what)} {_several('uses', 'use', len(bad))} {_several(kind, kinds, len(listed))}"


def _host_ports(pod: SecuredPod) -> SecurityViolation | None:
    def ports(container: Json) -> list[str]:
        return [str(each["hostPort"]) for each in container.get("ports") or () if each.get("hostPort")]

    bad = _bad_containers(pod, lambda each: bool(ports(each)))
    used = sorted({port for each in pod.containers for port in ports(each)})
    detail = f"{_uses(bad, 'container', 'hostPort', 'hostPorts', used)} {', '.join(used)}"
    return SecurityViolation("hostPort", detail) if bad else None


def _foreign_hosts(pod: SecuredPod) -> SecurityViolation | None:
    def hosts(container: Json) -> list[str]:
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [lifecycle.get(key) for key in ("postStart", "preStop")]
        asked = ((each or {}).get(key) or {} for each in handlers for key in ("httpGet", "tcpSocket"))
        return [each["host"] for each in asked if each.get("host")]

    bad = sorted(set(_bad_containers(pod, lambda each: bool(hosts(each)))))
    used = sorted({host for each in pod.containers for host in hosts(each)})
    kinds = ("probe or lifecycle host", "probe or lifecycle hosts")
    return SecurityViolation(kinds[0], f"{_uses(bad, 'container', *kinds, used)} {_joined(used)}") if bad else None


def _privileged(pod: SecuredPod) -> SecurityViolation | None:
    bad = _bad_containers(pod, lambda each: _context(each).get("privileged") is True)
    return (
        SecurityViolation("privileged", f"{_named(bad)} must not set securityContext.privileged=true") if bad else None
    )


def _proc_mount(pod: SecuredPod) -> SecurityViolation | None:
    def mount(container: Json) -> str:
        return str(_context(container).get("procMount", "Default"))

    bad = _bad_containers(pod, lambda each: mount(each) != "Default")
    used = sorted({mount(each) for each in pod.containers} - {"Default"})
    detail = f"{_named(bad)} must not set securityContext.procMount to {_joined(used)}"
    return SecurityViolation("procMount", detail) if bad else None


def _volumes(pod: SecuredPod) -> SecurityViolation | None:
    bad = [each for each in pod.spec.get("volumes") or () if not any(each.get(key) is not None for key in _VOLUMES)]
    if not bad:
        return None
    kinds = sorted({next((key for key in _OTHER_VOLUMES if each.get(key) is not None), "unknown") for each in bad})
    names = [each["name"] for each in bad]
    uses = _uses(names, "volume", "restricted volume type", "restricted volume types", kinds)
    return SecurityViolation("restricted volume types", f"{uses} {_joined(kinds)}")


def _as_non_root(pod: SecuredPod) -> SecurityViolation | None:
    reason = "runAsNonRoot != true"
    if setters := _setters(pod, lambda context: context.get("runAsNonRoot") is False):
        return SecurityViolation(reason, f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    if _context(pod.spec).get("runAsNonRoot"):
        return None
    silent = _bad_containers(pod, lambda each: _context(each).get("runAsNonRoot") is None)
    detail = f"pod or {_named(silent)} must set securityContext.runAsNonRoot=true"
    return SecurityViolation(reason, detail) if silent else None


def _as_root(pod: SecuredPod) -> SecurityViolation | None:
    setters = _setters(pod, lambda context: context.get("runAsUser") == 0)
    return SecurityViolation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _selinux(pod: SecuredPod, allowed: Iterable[str]) -> SecurityViolation | None:
    types: set[str] = set()
    forbidden: set[str] = set()

    def is_bad(context: Json) -> bool:
        options = context.get("seLinuxOptions")
        if options is None:
            return False
        wrong_type = {options.get("type", "")} - set(allowed)
        wrong = {key for key in ("user", "role") if options.get(key)}
        types.update(wrong_type)
        forbidden.update(wrong)
        return bool(wrong_type or wrong)

    setters = _setters(pod, is_bad)
    if not setters:
        return None
    data = [f"{_several('type', 'types', len(types))} {_joined(sorted(types))}"] if types else []
    data += (f"{key} may not be set" for key in ("user", "role") if key in forbidden)
    what = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions"
    return SecurityViolation("seLinuxOptions", f"{what}: {'; '.join(data)}")


def _seccomp_annotations(pod: SecuredPod) -> SecurityViolation | None:
    keys = [_SECCOMP_KEY, *(f"{_SECCOMP_CONTAINER_KEY}{each['name']}" for each in pod.containers)]

    def is_bad(key: str) -> bool:
        value = pod.annotations.get(key, "runtime/default")
        return value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")

    bad = sorted({f"{key}={quote(pod.annotations[key])}" for key in keys if is_bad(key)})
    detail = f"forbidden {_several('annotation', 'annotations', len(bad))} {', '.join(bad)}"
    return SecurityViolation("seccompProfile", detail) if bad else None


def _seccomp(pod: SecuredPod) -> SecurityViolation | None:
    setters, values = _wrong_profiles(pod, "seccompProfile")
    what = "must not set securityContext.seccompProfile.type to"
    return SecurityViolation("seccompProfile", f"{' and '.join(setters)} {what} {_joined(values)}") if setters else None


def _restricted_seccomp(pod: SecuredPod) -> SecurityViolation | None:
    if (found := _seccomp(pod)) is not None or _context(pod.spec).get("seccompProfile") is not None:
        return found
    silent = _bad_containers(pod, lambda each: _context(each).get("seccompProfile") is None)
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return SecurityViolation("seccompProfile", f"pod or {_named(silent)} {what}") if silent else None


def _sysctls(pod: SecuredPod, allowed: Iterable[str]) -> SecurityViolation | None:
    listed = _context(pod.spec).get("sysctls") or ()
    bad = [each["name"] for each in listed if each["name"] not in allowed]
    return SecurityViolation("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(pod: SecuredPod) -> SecurityViolation | None:
    setters = _setters(pod, lambda context: (context.get("windowsOptions") or {}).get("hostProcess") is True)
    what = "must not set securityContext.windowsOptions.hostProcess=true"
    return SecurityViolation("hostProcess", f"{' and '.join(setters)} {what}") if setters else None


def _but_windows(check: _Check, pod: SecuredPod) -> SecurityViolation | None:
    return None if pod.is_for_windows else check(pod)


def _but_own_users(check: _Check, pod: SecuredPod) -> SecurityViolation | None:
    return None if pod.has_own_users else check(pod)


CHECKS: Final[Mapping[str, SecurityCheck]] = {
    "appArmorProfile": SecurityCheck(BASELINE, ((0, _apparmor),)),
    "capabilities_baseline": SecurityCheck(BASELINE, ((0, _capabilities),)),
    "hostNamespaces": SecurityCheck(BASELINE, ((0, _host_namespaces),)),
    "hostPathVolumes": SecurityCheck(BASELINE, ((0, _host_paths),)),
    "hostPorts": SecurityCheck(BASELINE, ((0, _host_ports),)),
    "hostProbesAndHostLifecycle": SecurityCheck(BASELINE, ((34, _foreign_hosts),)),
    "privileged": SecurityCheck(BASELINE, ((0, _privileged),)),
    "procMount": SecurityCheck(BASELINE, ((0, _proc_mount), (35, partial(_but_own_users, _proc_mount)))),
    "seLinuxOptions": SecurityCheck(
        BASELINE,
        (
            (0, partial(_selinux, allowed=_SELINUX_TYPES)),
            (31, partial(_selinux, allowed=(*_SELINUX_TYPES, "container_engine_t"))),
        ),
    ),
    "seccompProfile_baseline": SecurityCheck(BASELINE, ((0, _seccomp_annotations), (19, _seccomp))),
    "sysctls": SecurityCheck(
        BASELINE,
        tuple(
            (since, partial(_sysctls, allowed=allowed))
            for since, allowed in ((0, _SYSCTLS), (27, _SYSCTLS_27), (29, _SYSCTLS_29), (32, _SYSCTLS_32))
        ),
    ),
    "windowsHostProcess": SecurityCheck(BASELINE, ((0, _host_process),)),
    "allowPrivilegeEscalation": SecurityCheck(RESTRICTED, ((8, _escalation), (25, partial(_but_windows, _escalation)))),
    "capabilities_restricted": SecurityCheck(
        RESTRICTED,
        ((22, _restricted_capabilities), (25, partial(_but_windows, _restricted_capabilities))),
        replaces="capabilities_baseline",
    ),
    "procMount_restricted": SecurityCheck(RESTRICTED, ((35, _proc_mount),), replaces="procMount"),
    "restrictedVolumes": SecurityCheck(RESTRICTED, ((0, _volumes),), replaces="hostPathVolumes"),
    "runAsNonRoot": SecurityCheck(RESTRICTED, ((0, _as_non_root), (35, partial(_but_own_users, _as_non_root)))),
    "runAsUser": SecurityCheck(RESTRICTED, ((23, _as_root), (35, partial(_but_own_users, _as_root)))),
    "seccompProfile_restricted": SecurityCheck(
        RESTRICTED,
        ((19, _restricted_seccomp), (25, partial(_but_windows, _restricted_seccomp))),
        replaces="seccompProfile_baseline",
    ),
}
"""By Kubernetes' names for them, in the order of complaints: baseline first, each level by name."""

NEWEST: Final = max(since for row in CHECKS.values() for since, _ in row.versions)
"""The last release that changed something."""


@cache
def _checks(level: str, minor: int) -> tuple[_Check, ...]:
    found = {
        name: check
        for name, row in CHECKS.items()
        if row.level in (BASELINE, level) and (check := row.at(minor)) is not None
    }
    replaced = {CHECKS[name].replaces for name in found}
    return tuple(check for name, check in found.items() if name not in replaced)


def violations(pod: SecuredPod, level: str, minor: int) -> list[SecurityViolation]:
    """What is against `baseline` or `restricted` as that release of Kubernetes had it."""
    return [found for check in _checks(level, min(minor, NEWEST)) if (found := check(pod)) is not None]
