"""Per kind: defaults, first status, validation and warnings, beyond what applies to all objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from jettison.apiserver.objects.defaults import (
    default_daemon_set,
    default_deployment,
    default_job,
    default_pod,
    default_replica_set,
    default_stateful_set,
)
from jettison.apiserver.objects.schema import empty_struct
from jettison.apiserver.objects.validation.budgets import (
    validate_budget,
    validate_budget_status,
    validate_budget_update,
)
from jettison.apiserver.objects.validation.jobs import validate_job, validate_job_update
from jettison.apiserver.objects.validation.metadata import (
    NameRule,
    label_name,
    path_segment_name,
    subdomain_name,
    validate_known_metadata,
    validate_known_metadata_update,
    validate_metadata,
    validate_metadata_update,
)
from jettison.apiserver.objects.validation.mistakes import Mistake
from jettison.apiserver.objects.validation.pods import validate_pod, validate_pod_status, validate_pod_update
from jettison.apiserver.objects.validation.resources import fractional_bytes
from jettison.apiserver.objects.validation.small_kinds import (
    validate_event,
    validate_event_update,
    validate_lease,
    validate_lease_update,
    validate_new_event,
    validate_new_event_update,
    validate_node,
    validate_node_status,
    validate_node_update,
    validate_priority_class,
    validate_priority_class_update,
    validate_revision,
    validate_revision_update,
)
from jettison.apiserver.objects.validation.workloads import (
    replicas_status_check,
    validate_daemon_set,
    validate_daemon_set_status,
    validate_daemon_set_update,
    validate_deployment,
    validate_deployment_update,
    validate_replica_set,
    validate_replica_set_update,
    validate_stateful_set,
    validate_stateful_set_update,
)
from jettison.manifests.pods import pod_from

Json = dict[str, Any]

_FORMER_KEY: Final = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def _nothing(*values: Json) -> None:
    del values


def _no_mistake(*values: object) -> Iterable[Mistake]:
    del values
    return ()


def _whole_metadata(rule: NameRule = subdomain_name) -> Callable[[Json, Json], Iterable[Mistake]]:
    def check(new: Json, old: Json) -> Iterable[Mistake]:
        del old
        return validate_known_metadata(new, rule)

    return check


def _no_warning(value: Json) -> Iterable[str]:
    del value
    return ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The functions for one kind. `default` and `prepare` write into the object, which is not stored yet.

    `prepare` is for new objects only, and makes their first status.
    """

    default: Callable[[Json], None] = _nothing
    prepare: Callable[[Json], None] = _nothing
    name: NameRule = subdomain_name
    # What the kind asks of the metadata itself. Kubernetes asks some things of a changed object twice, and complains
    # twice; a change of the status has the first of these checks only.
    validate_new_metadata: Callable[[Json, NameRule], Iterable[Mistake]] = validate_known_metadata
    validate_changed_metadata: tuple[Callable[[Json, Json], Iterable[Mistake]], ...] = (validate_known_metadata_update,)
    # Beside the spec, what a write of the status leaves alone, and what it may leave out.
    kept_by_status: tuple[str, ...] = ()
    complete_status: Callable[[Json, Json], None] = _nothing
    validate: Callable[[Json], Iterable[Mistake]] = _no_mistake
    validate_update: Callable[[Json, Json], Iterable[Mistake]] = _no_mistake
    validate_status: Callable[[Json, Json], Iterable[Mistake]] = _no_mistake
    warn: Callable[[Json], Iterable[str]] = _no_warning
    # A generation counts changes of the spec; a Deployment's, for its history of revisions, those of annotations too.
    counts_annotations: bool = False


def _prepare_pod(pod: Json) -> None:
    if pod["spec"]["terminationGracePeriodSeconds"] < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
    pod["status"] = {"phase": "Pending"}
    pod["status"]["qosClass"] = str(pod_from(pod).qos)


def _complete_pod_status(status: Json, old: Json) -> None:
    """A client that does not know these fields does not mean to remove them."""
    if not status.get("qosClass") and "qosClass" in old:
        status["qosClass"] = old["qosClass"]
    if not status.get("observedGeneration") and "observedGeneration" in old:
        status["observedGeneration"] = old["observedGeneration"]
    seen: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        seen.setdefault(condition["type"], []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        former = seen.get(condition["type"])
        generation = former.pop(0) if former else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _warn_name(where: str) -> Callable[[Json], Iterable[str]]:
    def warn(value: Json) -> Iterable[str]:
        if complaints := list(label_name(value["metadata"]["name"])):
            why = "which can result in surprising behavior; a DNS label is recommended"
            yield f"metadata.name: this is used in {where}, {why}: [{' '.join(complaints)}]"

    return warn


_warn_pod_name: Final = _warn_name("the Pod's hostname")
_warn_pods_names: Final = _warn_name("Pod names and hostnames")


def _warn_pod(pod: Json) -> Iterable[str]:
    yield from _warn_pod_name(pod)
    for index, container in enumerate(pod["spec"].get("containers") or ()):
        yield from fractional_bytes(container["resources"], f"spec.containers[{index}].resources")


def _default_node(node: Json) -> None:
    status = node["status"]
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])


def _default_namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}


def _prepare_namespace(namespace: Json) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].get("finalizers") or []
    namespace["spec"] = {**namespace["spec"], "finalizers": [*finalizers, *({"kubernetes"} - set(finalizers))]}


def _default_priority_class(value: Json) -> None:
    value.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _prepare_job(job: Json) -> None:
    """The pods of a job are known by a label with the job's uid, so that no user has to invent a selector."""
    job["status"] = empty_struct("JobStatus")
    spec, uid, name = job["spec"], job["metadata"]["uid"], job["metadata"].get("name", "")
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"].get("labels") or {}
    made = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    made |= {"controller-uid": uid, "job-name": name}
    spec["template"]["metadata"]["labels"] = {**labels, **made}
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = spec["template"]["metadata"]["labels"]


def _default_budget(budget: Json) -> None:
    """Kubernetes once marked empty selectors with this key; it is removed from all others."""
    selector = budget["spec"].get("selector") or {}
    expressions = selector.get("matchExpressions") or []
    if not any(each["key"] == _FORMER_KEY for each in expressions):
        return
    is_alone = len(expressions) == 1 and not selector.get("matchLabels")
    if is_alone and expressions[0]["operator"] == "Exists" and not expressions[0].get("values"):
        return
    kept = [each for each in expressions if each["key"] != _FORMER_KEY]
    rest = {key: value for key, value in selector.items() if key != "matchExpressions"}
    budget["spec"]["selector"] = {**rest, "matchExpressions": kept} if kept else rest


def _fresh_status(struct: str) -> Callable[[Json], None]:
    def prepare(value: Json) -> None:
        value["status"] = empty_struct(struct)

    return prepare


PLAIN_RULES: Final = Rules()
POD_RULES: Final = Rules(
    default=default_pod,
    prepare=_prepare_pod,
    validate=validate_pod,
    validate_update=validate_pod_update,
    validate_status=validate_pod_status,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
    # Old kubelets write them wrongly, and garbage collection depends on them.
    kept_by_status=("ownerReferences", "deletionTimestamp"),
    complete_status=_complete_pod_status,
    warn=_warn_pod,
)
NODE_RULES: Final = Rules(
    default=_default_node,
    validate=validate_node,
    validate_update=validate_node_update,
    validate_status=validate_node_status,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
)
NAMESPACE_RULES: Final = Rules(
    default=_default_namespace,
    prepare=_prepare_namespace,
    name=label_name,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata(label_name)),
)
EVENT_RULES: Final = Rules(
    name=path_segment_name,
    validate_new_metadata=_no_mistake,
    validate_changed_metadata=(),
    validate=validate_event,
    validate_update=validate_event_update,
)
NEW_EVENT_RULES: Final = Rules(validate=validate_new_event, validate_update=validate_new_event_update)
BUDGET_RULES: Final = Rules(
    default=_default_budget,
    prepare=_fresh_status("PodDisruptionBudgetStatus"),
    name=path_segment_name,
    validate_new_metadata=_no_mistake,
    validate_changed_metadata=(),
    validate=validate_budget,
    validate_update=validate_budget_update,
    validate_status=validate_budget_status,
)
DAEMON_SET_RULES: Final = Rules(
    default=default_daemon_set,
    prepare=_fresh_status("DaemonSetStatus"),
    validate=validate_daemon_set,
    validate_update=validate_daemon_set_update,
    validate_status=validate_daemon_set_status,
)
DEPLOYMENT_RULES: Final = Rules(
    warn=_warn_pods_names,
    default=default_deployment,
    prepare=_fresh_status("DeploymentStatus"),
    validate=validate_deployment,
    validate_update=validate_deployment_update,
    validate_status=replicas_status_check("Deployment"),
    kept_by_status=("labels",),
    counts_annotations=True,
)
REPLICA_SET_RULES: Final = Rules(
    warn=_warn_pods_names,
    default=default_replica_set,
    prepare=_fresh_status("ReplicaSetStatus"),
    validate=validate_replica_set,
    validate_update=validate_replica_set_update,
    validate_status=replicas_status_check("ReplicaSet"),
)
STATEFUL_SET_RULES: Final = Rules(
    default=default_stateful_set,
    prepare=_fresh_status("StatefulSetStatus"),
    name=label_name,
    validate=validate_stateful_set,
    validate_update=validate_stateful_set_update,
    validate_status=replicas_status_check("StatefulSet"),
)
JOB_RULES: Final = Rules(
    warn=_warn_pods_names,
    default=default_job,
    prepare=_prepare_job,
    validate=validate_job,
    validate_update=validate_job_update,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
)
PRIORITY_CLASS_RULES: Final = Rules(
    default=_default_priority_class, validate=validate_priority_class, validate_update=validate_priority_class_update
)
LEASE_RULES: Final = Rules(
    validate=validate_lease,
    validate_update=validate_lease_update,
    validate_new_metadata=validate_metadata,
    validate_changed_metadata=(validate_metadata_update,),
)
REVISION_RULES: Final = Rules(validate=validate_revision, validate_update=validate_revision_update)
