"""The pods of a DaemonSet as documents: how one is made for its node, and for which node one was made."""

from __future__ import annotations

from typing import Any, Final

from jettison.controllers.machinery.object_state import node_name_of
from jettison.controllers.machinery.revisions import REVISION_LABEL
from jettison.engine.scheduling.node_affinity import NAME_FIELD
from jettison.engine.scheduling.taints import Toleration
from jettison.engine.workloads.daemon_placement import AUTOMATIC_TOLERATIONS, HOST_NETWORK_TOLERATION
from jettison.runtimes.kube.client import Document

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def daemon_template(template: Document, revision: str) -> Document:
    """What all pods of the set have in common: the revision's label and the tolerations of daemons."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), REVISION_LABEL: revision}
    added = [*AUTOMATIC_TOLERATIONS, *([HOST_NETWORK_TOLERATION] if spec.get("hostNetwork") else [])]
    tolerations: list[Document] = list(spec.get("tolerations") or ())
    for each in added:
        tolerations = _with_toleration(tolerations, each)
    return {**template, "metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": tolerations}}


def pinned(template: Document, node: str) -> Document:
    """For one node alone. What the template itself asks of nodes was asked when this one was chosen."""
    spec = template["spec"]
    affinity = spec.get("affinity") or {}
    only = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    required = {**((affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {})}
    required["nodeSelectorTerms"] = [{"matchFields": [only]}]
    node_affinity = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: required}
    return {**template, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}}


def target_node(pod: Document) -> str | None:
    """Where it runs, or is to run; None for one that was not made by `pinned`."""
    if name := node_name_of(pod):
        return name
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each.get("key") == NAME_FIELD and each.get("operator") == "In":
                values: list[Any] = each.get("values") or []
                return str(values[0]) if len(values) == 1 else None
    return None


def _with_toleration(tolerations: list[Document], toleration: Toleration) -> list[Document]:
    """In the place of one that differs only in its seconds: no template may make a daemon leave a silent node."""
    made = {"key": toleration.key, "operator": toleration.operator, "effect": toleration.effect}
    is_known = False
    changed = []
    for each in tolerations:
        is_same = not each.get("value") and all(each.get(key) == value for key, value in made.items())
        is_known = is_known or is_same
        changed.append(made if is_same else each)
    return changed if is_known else [*changed, made]
