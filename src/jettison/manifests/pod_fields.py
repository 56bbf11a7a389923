"""What a pod is told about itself: fields of its document and resources of its containers, as texts.

The downward API of Kubernetes: `fieldRef` and `resourceFieldRef`, in variables and in files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from jettison.engine.numbers.quantity import ZERO, Quantity, parse_field
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.pod import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY
from jettison.errors import ManifestError, QuantityError
from jettison.values import frozen

_SUBSCRIPT: Final = re.compile(r"(metadata\.(?:labels|annotations))\['([^']+)'\]")
_METADATA: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
_MAPS: Final = ("metadata.labels", "metadata.annotations")
_OF_THE_NODE: Final = (
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_AMOUNTS: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


@frozen
class PodPlace:
    """What a pod's document does not say: where it runs."""

    node: str = ""
    host_addresses: Sequence[str] = ()
    pod_addresses: Sequence[str] = ()
    # Of the node: the limit of a container that has none.
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)


@frozen
class ResourceField:
    """`limits.cpu` of a container, in units of the divisor."""

    container: str
    resource: str
    divisor: str = "1"


def check_field(path: str, *, is_file: bool) -> str:
    """The path, if there is such a field. Files may have whole maps, variables may have what is the node's."""
    known = (*_METADATA, *(_MAPS if is_file else _OF_THE_NODE))
    if path in known or _SUBSCRIPT.fullmatch(path):
        return path
    shown = ", ".join((*known, "metadata.labels['KEY']", "metadata.annotations['KEY']"))
    raise ManifestError(f"fieldPath {quote(path[:200])} is not known, there are {shown}")


def check_resource(wanted: ResourceField) -> ResourceField:
    """The same, if there is such a resource and the divisor is a quantity above 0."""
    part, _, name = wanted.resource.partition(".")
    if part not in ("limits", "requests") or not (name in _AMOUNTS or name.startswith(HUGEPAGES_PREFIX)):
        raise ManifestError(f"unsupported container resource : {wanted.resource[:200]}")
    try:
        divisor = parse_field(wanted.divisor)
    except QuantityError as error:
        raise ManifestError(f"divisor: {error}") from error
    if divisor.sign < 0:
        raise ManifestError(f"divisor {quote(wanted.divisor)} must be greater than or equal to 0")
    return wanted


def field_text(document: Mapping[str, Any], path: str, around: PodPlace) -> str:
    """A field, by a path that was checked; empty where the pod has no such label or annotation."""
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        return str((metadata.get(subscript[1].partition(".")[2]) or {}).get(subscript[2], ""))
    if path in _MAPS:
        pairs = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f"{key}={quote(str(value))}" for key, value in sorted(pairs.items()))
    if path in _METADATA:
        return str(metadata.get(path.partition(".")[2]) or "")
    found = {
        "spec.nodeName": around.node,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "status.hostIP": next(iter(around.host_addresses), ""),
        "status.hostIPs": ",".join(around.host_addresses),
        "status.podIP": next(iter(around.pod_addresses), ""),
        "status.podIPs": ",".join(around.pod_addresses),
    }
    return str(found[path])


def resource_text(document: Mapping[str, Any], wanted: ResourceField, around: PodPlace) -> str:
    """An amount, rounded up to whole units. Raises ManifestError where there is no such container."""
    part, _, name = wanted.resource.partition(".")
    amount = _amount(_container(document, wanted.container), part, name)
    if part == "limits" and name in _AMOUNTS and not amount.sign:
        amount = around.allocatable.get(name, amount)
    divisor = parse_field(wanted.divisor)
    if not divisor.sign:
        divisor = parse_field("1")
    of, by = (amount.milli, divisor.milli) if name == CPU else (amount.value, divisor.value)
    # With Go's floating point, which is what Kubernetes does.
    return str(math.ceil(of / by))


def _container(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    spec = document.get("spec") or {}
    for part in ("containers", "initContainers", "ephemeralContainers"):
        for each in spec.get(part) or ():
            if each.get("name") == name:
                found: Mapping[str, Any] = each
                return found
    raise ManifestError(f"container {name} not found")


def _amount(container: Mapping[str, Any], part: str, name: str) -> Quantity:
    found = ((container.get("resources") or {}).get(part) or {}).get(name)
    return ZERO if found is None else parse_field(str(found))
