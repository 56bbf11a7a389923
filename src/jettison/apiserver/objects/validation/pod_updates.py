"""What may change in a pod's spec, and how Kubernetes shows what must not: Go values as JSON, compared line by line.

The names, their order and the empty fields are Go's; that is why a line number in a complaint is what it is.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, invalid
from jettison.manifests.files.kinds import Field, Type, structs

Json = dict[str, Any]

_SPEC: Final = (
    "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy", "terminationGracePeriodSeconds",
    "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName", "automountServiceAccountToken",
    "nodeName", "securityContext", "imagePullSecrets", "hostname", "subdomain", "setHostnameAsFQDN", "affinity",
    "schedulerName", "tolerations", "hostAliases", "priorityClassName", "priority", "preemptionPolicy", "dnsConfig",
    "readinessGates", "runtimeClassName", "overhead", "enableServiceLinks", "topologySpreadConstraints", "os",
    "schedulingGates", "resourceClaims", "resources", "hostnameOverride", "schedulingGroup",
)  # fmt: skip
_POD_SECURITY: Final = (
    "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers", "seLinuxOptions", "windowsOptions",
    "runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups", "supplementalGroupsPolicy", "fsGroup",
    "fsGroupChangePolicy", "sysctls", "seccompProfile", "appArmorProfile", "seLinuxChangePolicy",
)  # fmt: skip
# Inside Kubernetes these five belong to the security context.
_MOVED: Final = frozenset(_POD_SECURITY[:5])
_NAMES: Final = {
    "tty": "TTY", "os": "OS", "httpGet": "HTTPGet", "tcpSocket": "TCPSocket", "grpc": "GRPC", "ip": "IP", "nfs": "NFS",
    "rbd": "RBD", "csi": "CSI", "fc": "FC", "iscsi": "ISCSI", "dnsPolicy": "DNSPolicy", "dnsConfig": "DNSConfig",
    "seLinuxOptions": "SELinuxOptions", "seLinuxChangePolicy": "SELinuxChangePolicy", "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy", "httpHeaders": "HTTPHeaders", "cephfs": "CephFS",
}  # fmt: skip
_ZEROS: Final = {"string": "", "bool": False, "int32": 0, "int64": 0, "quantity": "0"}


def spec_difference(old: Json, new: Json) -> str:
    """A unified difference with three lines around each change, as `diff -u` has it, without the names of files."""
    lines = difflib.unified_diff(_lines(old), _lines(new), n=3, lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:])


def _lines(spec: Json) -> list[str]:
    return json.dumps(spec_value(spec), indent=1, ensure_ascii=False).split("\n")


def spec_value(spec: Json) -> Json:
    """The spec with the names, the order and the empty fields that it has inside Kubernetes."""
    known = structs()
    fields, security = known["PodSpec"].fields, known["PodSecurityContext"].fields
    shown = {_name(key): _value(fields[key], spec) for key in _SPEC}
    if (context := spec.get("securityContext")) is not None:
        shown["SecurityContext"] = {
            _name(key): _value(fields[key], spec) if key in _MOVED else _value(security[key], context)
            for key in _POD_SECURITY
        }
    return shown


def term_value(term: Json) -> Any:
    """As above, for one term of a node selector."""
    return _typed(Type((), "NodeSelectorTerm"), term)


def _name(key: str) -> str:
    return _NAMES.get(key, key[:1].upper() + key[1:])


def _value(field: Field, source: Json) -> Any:
    value = source.get(field.name)
    if value is None and not field.is_pointer:
        if field.type.is_struct and field.is_always_written:
            return _typed(field.type, {})
        return None if field.type.shape else _ZEROS.get(field.type.base)
    return _typed(field.type, value)


def _typed(kind: Type, value: Any) -> Any:
    if value is None:
        return None
    if kind.shape:
        if isinstance(value, dict):
            return {key: _typed(kind.element, item) for key, item in value.items()}
        return [_typed(kind.element, item) for item in value]
    if kind.is_struct:
        return {_name(key): _value(field, value) for key, field in structs()[kind.base].fields.items()}
    return value


# While scheduling gates hold a pod, where it may run can be narrowed down, and only narrowed: what it asked for stays.
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_narrowing(spec: Json, former: Json) -> Iterator[Mistake]:
    """The node selector and the terms of the node affinity may grow. What a pod merely prefers may change at will."""
    selector = spec.get("nodeSelector")
    if any((selector or {}).get(key) != value for key, value in (former.get("nodeSelector") or {}).items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", selector, why)
    terms, before = _terms(spec), _terms(former)
    if not before:
        return
    if len(terms or ()) != len(before):
        shown = None if terms is None else [term_value(each) for each in terms]
        yield invalid(_TERMS, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, old) in enumerate(zip(terms or (), before, strict=True)):
        if not _only_grows(term, old):
            why = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{_TERMS}[{index}]", term_value(term), why)


def restored_affinity(spec: Json, former: Json) -> Json | None:
    """The affinity with its part about nodes set back to what it was; the part about other pods is immutable."""
    affinity, old = spec.get("affinity"), former.get("affinity")
    before = (old or {}).get("nodeAffinity")
    if (affinity or {}).get("nodeAffinity") == before:
        return affinity
    others = {key: value for key, value in (affinity or {}).items() if key != "nodeAffinity"}
    if before is not None:
        return {**others, "nodeAffinity": before}
    return others if others or old is not None else None


def _terms(spec: Json) -> list[Json] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Json] | None = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    return terms


def _only_grows(term: Json, old: Json) -> bool:
    """A term that asks for nothing fits no node; something in it would make it fit some."""
    pairs = [(term.get(key) or [], old.get(key) or []) for key in ("matchExpressions", "matchFields")]
    if not any(before for _, before in pairs):
        return not any(now for now, _ in pairs)
    return all(now[: len(before)] == before for now, before in pairs)
