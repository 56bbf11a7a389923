"""What is done to an object of each kind when it is written, beyond what is done to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from jettison.apiserver.defaults.pods import default_pod
from jettison.apiserver.defaults.workloads import (
    default_daemon_set,
    default_deployment,
    default_job,
    default_replica_set,
    default_stateful_set,
)
from jettison.apiserver.schema.reading import empty_struct
from jettison.apiserver.validation.budgets import validate_budget, validate_budget_status, validate_budget_update
from jettison.apiserver.validation.mistakes import Mistake
from jettison.apiserver.validation.names import NameRule, label_name, path_segment_name, subdomain_name
from jettison.apiserver.validation.nodes import validate_node, validate_node_status, validate_node_update
from jettison.apiserver.validation.pods import validate_pod, validate_pod_status, validate_pod_update
from jettison.apiserver.validation.priorities import validate_priority_class, validate_priority_class_update
from jettison.apiserver.validation.resources import fractional_bytes
from jettison.apiserver.validation.rollouts import validate_rollout
from jettison.apiserver.validation.small_kinds import (
    validate_event,
    validate_event_update,
    validate_lease,
    validate_lease_update,
    validate_revision,
    validate_revision_update,
)
from jettison.apiserver.validation.workloads import (
    Check,
    validate_job,
    validate_job_update,
    workload_checks,
)
from jettison.manifests.pods import pod_from

Json = dict[str, Any]


def _nothing(value: Json) -> None:
    del value


def _no_mistake(*values: Json) -> Iterable[Mistake]:
    del values
    return ()


def _no_warning(value: Json) -> Iterable[str]:
    del value
    return ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The functions for one kind. `default` and `prepare` write into the object, which nobody else has yet.

    `prepare` is for new objects only, and makes their first status.
    """

    default: Callable[[Json], None] = _nothing
    prepare: Callable[[Json], None] = _nothing
    name: NameRule = subdomain_name
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


def _warn_pod(pod: Json) -> Iterable[str]:
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
    """The pods of a job are known by a label with the job's uid, so that nobody has to invent a selector."""
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


def _fresh_status(struct: str) -> Callable[[Json], None]:
    def prepare(value: Json) -> None:
        value["status"] = empty_struct(struct)

    return prepare


def _workload(
    kind: str,
    default: Callable[[Json], None],
    *numbers: str,
    counts_annotations: bool = False,
    further: Check | None = None,
) -> Rules:
    validate, validate_update = workload_checks(kind.lower(), *numbers, further=further)
    return Rules(
        default=default,
        prepare=_fresh_status(f"{kind}Status"),
        validate=validate,
        validate_update=validate_update,
        counts_annotations=counts_annotations,
    )


PLAIN_RULES: Final = Rules()
POD_RULES: Final = Rules(
    default=default_pod,
    prepare=_prepare_pod,
    validate=validate_pod,
    validate_update=validate_pod_update,
    validate_status=validate_pod_status,
    warn=_warn_pod,
)
NODE_RULES: Final = Rules(
    default=_default_node,
    validate=validate_node,
    validate_update=validate_node_update,
    validate_status=validate_node_status,
)
NAMESPACE_RULES: Final = Rules(default=_default_namespace, prepare=_prepare_namespace, name=label_name)
EVENT_RULES: Final = Rules(validate=validate_event, validate_update=validate_event_update)
BUDGET_RULES: Final = Rules(
    prepare=_fresh_status("PodDisruptionBudgetStatus"),
    name=path_segment_name,
    validate=validate_budget,
    validate_update=validate_budget_update,
    validate_status=validate_budget_status,
)
_SLOW: Final = ("minReadySeconds", "revisionHistoryLimit")
DAEMON_SET_RULES: Final = _workload("DaemonSet", default_daemon_set, *_SLOW)
DEPLOYMENT_RULES: Final = _workload(
    "Deployment",
    default_deployment,
    *("replicas", "progressDeadlineSeconds", *_SLOW),
    counts_annotations=True,
    further=validate_rollout,
)
REPLICA_SET_RULES: Final = _workload("ReplicaSet", default_replica_set, "replicas", "minReadySeconds")
STATEFUL_SET_RULES: Final = _workload("StatefulSet", default_stateful_set, "replicas", *_SLOW)
JOB_RULES: Final = Rules(
    default=default_job, prepare=_prepare_job, validate=validate_job, validate_update=validate_job_update
)
PRIORITY_CLASS_RULES: Final = Rules(
    default=_default_priority_class, validate=validate_priority_class, validate_update=validate_priority_class_update
)
LEASE_RULES: Final = Rules(validate=validate_lease, validate_update=validate_lease_update)
REVISION_RULES: Final = Rules(validate=validate_revision, validate_update=validate_revision_update)
