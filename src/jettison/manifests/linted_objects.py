"""Workloads and budgets of manifests, or of a cluster, as the values that rules look at.

Only what rules need is read, so that a kind with fields of a newer Kubernetes is no mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import field

from jettison.engine.budgets.budget import Budget
from jettison.engine.lint.subjects import Objects, PodGroup
from jettison.manifests.budgets import budget_from
from jettison.manifests.files.decoding import Wire, convert, named

Document = Mapping[str, Any]

BUDGET = "PodDisruptionBudget"
_PRIORITY_CLASS, _AUTOSCALER = "PriorityClass", "HorizontalPodAutoscaler"
_COUNTED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_UNCOUNTED = ("DaemonSet", "Job")
KINDS = ("Pod", *_COUNTED, *_UNCOUNTED, BUDGET, _PRIORITY_CLASS, _AUTOSCALER)
"""The kinds that rules look at; others are passed over."""


class _Owner(Wire):
    controller: bool | None = None


class _Metadata(Wire):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _PodSpec(Wire):
    priority_class_name: str | None = None
    priority: int | None = None


class _Template(Wire):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


class _Pod(Wire):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _PodSpec | None = None


class _WorkloadSpec(Wire):
    replicas: int | None = None
    template: _Template | None = None


class _Workload(Wire):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _WorkloadSpec | None = None


class _Class(Wire):
    global_default: bool | None = None


class _Target(Wire):
    kind: str = ""
    name: str = ""


class _ScalerSpec(Wire):
    scale_target_ref: _Target = field(default_factory=_Target)


class _Scaler(Wire):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _ScalerSpec = field(default_factory=_ScalerSpec)


def objects_from(documents: Iterable[Document]) -> Objects:
    """Documents of `KINDS`; raises a ManifestError for one whose parts have another shape."""
    groups: list[PodGroup] = []
    budgets: list[Budget] = []
    scaled: set[tuple[str, str, str]] = set()
    has_default = False
    for document in documents:
        kind = document.get("kind")
        if kind == BUDGET:
            found = budget_from(document)
            budgets.append(replace(found, namespace=found.namespace or "default"))
        elif kind == _PRIORITY_CLASS:
            has_default |= bool(convert(document, _Class, named(_PRIORITY_CLASS, document)).global_default)
        elif kind == _AUTOSCALER:
            scaler = convert(document, _Scaler, named(_AUTOSCALER, document))
            target = scaler.spec.scale_target_ref
            scaled.add((target.kind, scaler.metadata.namespace or "default", target.name))
        elif kind in KINDS:
            groups.append(_group(str(kind), document))
    # What an autoscaler decides is not known here.
    known = [
        replace(each, replicas=None) if (each.kind, each.namespace, each.name) in scaled else each for each in groups
    ]
    return Objects(known, budgets, has_default)


def _group(kind: str, document: Document) -> PodGroup:
    replicas: int | None = 1
    if kind == "Pod":
        pod = convert(document, _Pod, named(kind, document))
        metadata, template, spec = pod.metadata, pod.metadata, pod.spec
    else:
        workload = convert(document, _Workload, named(kind, document))
        wanted = workload.spec or _WorkloadSpec()
        metadata, made = workload.metadata, wanted.template or _Template()
        template, spec = made.metadata or _Metadata(), made.spec
        replicas = (1 if wanted.replicas is None else wanted.replicas) if kind in _COUNTED else None
    spec = spec or _PodSpec()
    return PodGroup(
        kind,
        metadata.namespace or "default",
        metadata.name or metadata.generate_name or "",
        template.labels or {},
        replicas,
        has_priority=bool(spec.priority_class_name) or spec.priority is not None,
        is_owned=any(owner.controller for owner in metadata.owner_references or ()),
    )
