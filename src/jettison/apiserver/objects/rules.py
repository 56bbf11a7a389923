"""Per kind: defaults, first status, validation and warnings, beyond what applies to all objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from jettison.apiserver.objects.defaults import (
    default_daemon_set,
    default_deployment,
    default_endpoint_slice,
    default_endpoints,
    default_job,
    default_pod,
    default_replica_set,
    default_replication_controller,
    default_service,
    default_stateful_set,
    merge_label_keys,
    round_amounts,
)
from jettison.apiserver.objects.runtime_classes import (
    validate_runtime_class,
    validate_runtime_class_update,
    warn_runtime_class,
)
from jettison.apiserver.objects.schema import empty_struct
from jettison.apiserver.objects.validation.budgets import (
    validate_budget,
    validate_budget_status,
    validate_budget_update,
)
from jettison.apiserver.objects.validation.configuration import (
    default_account,
    default_config_map,
    default_secret,
    validate_config_map,
    validate_config_map_update,
    validate_secret,
    validate_secret_update,
    warn_account,
    warn_changed_account,
    warn_secret,
)
from jettison.apiserver.objects.validation.job_statuses import validate_job_status
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
from jettison.apiserver.objects.validation.mistakes import Mistake, refusal
from jettison.apiserver.objects.validation.pod.pod_statuses import validate_pod_status
from jettison.apiserver.objects.validation.pod.pods import (
    validate_ephemeral_update,
    validate_pod,
    validate_pod_update,
    validate_resize,
)
from jettison.apiserver.objects.validation.service_changes import change_service, give_families, repeat_address
from jettison.apiserver.objects.validation.services import (
    validate_endpoint_slice,
    validate_endpoint_slice_update,
    validate_endpoints,
    validate_endpoints_update,
    validate_service,
    validate_service_status,
    validate_service_update,
    warn_changed_service,
    warn_changed_slice,
    warn_endpoint_slice,
    warn_endpoints,
    warn_service,
)
from jettison.apiserver.objects.validation.small_kinds import (
    validate_event,
    validate_event_update,
    validate_lease,
    validate_lease_update,
    validate_namespace,
    validate_namespace_status,
    validate_namespace_update,
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
    validate_replication_controller,
    validate_replication_controller_update,
    validate_stateful_set,
    validate_stateful_set_status,
    validate_stateful_set_update,
)
from jettison.apiserver.objects.warnings import (
    no_warning,
    pod_warnings,
    warn_changed_job,
    warn_changed_stateful_set,
    warn_changed_template,
    warn_former_template,
    warn_job,
    warn_node,
    warn_pod,
    warn_pods_names,
    warn_stateful_set,
    warn_template,
)
from jettison.manifests.pods import pod_from
from jettison.values import frozen

Json = dict[str, Any]

_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_ELECTION_FIELDS: Final = ("strategy", "preferredHolder")
TEMPLATE_NUMBER: Final = "deprecated.daemonset.template.generation"
_FORMER_KEY: Final = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def _nothing(*values: Json) -> None:
    del values


def _no_mistake(*values: object) -> Iterable[Mistake]:
    del values
    return ()


def _whole_metadata(
    rule: NameRule = subdomain_name,
    validate: Callable[[Json, NameRule], Iterable[Mistake]] = validate_known_metadata,
) -> Callable[[Json, Json], Iterable[Mistake]]:
    def check(new: Json, old: Json) -> Iterable[Mistake]:
        del old
        return validate(new, rule)

    return check


def _own_metadata(metadata: Json, rule: NameRule) -> Iterable[Mistake]:
    """Surprise: what the name of a ReplicationController is generated from is not looked at."""
    return validate_known_metadata({key: value for key, value in metadata.items() if key != "generateName"}, rule)


def _no_change_warning(new: Json, old: Json) -> Iterable[str]:
    del new, old
    return ()


def _as_new(warn: Callable[[Json], Iterable[str]]) -> Callable[[Json, Json], Iterable[str]]:
    """A change is warned of as a new object is."""

    def warn_change(new: Json, old: Json) -> Iterable[str]:
        del old
        return warn(new)

    return warn_change


@frozen
class Rules:
    """The functions for one kind. `default` and `prepare` write into the object, which is not stored yet.

    `prepare` is for new objects only, and makes their first status.
    """

    default: Callable[[Json], None] = _nothing
    prepare: Callable[[Json], None] = _nothing
    # Kubernetes shows an object as it has read it back: with defaults that follow from what it had filled in.
    read_back: Callable[[Json], None] = _nothing
    # What a change may not set, given the former object.
    prepare_change: Callable[[Json, Json], None] = _nothing
    name: NameRule = subdomain_name
    # What the kind asks of the metadata itself. Kubernetes asks some things of a changed object twice, and complains
    # twice.
    validate_new_metadata: Callable[[Json, NameRule], Iterable[Mistake]] = validate_known_metadata
    validate_changed_metadata: tuple[Callable[[Json, Json], Iterable[Mistake]], ...] = (validate_known_metadata_update,)
    # The same for a write of the status, or of a namespace's finalizers.
    validate_status_metadata: tuple[Callable[[Json, Json], Iterable[Mistake]], ...] = (validate_known_metadata_update,)
    # Beside the spec, what a write of the status leaves alone, and what it may leave out.
    kept_by_status: tuple[str, ...] = ()
    complete_status: Callable[[Json, Json], None] = _nothing
    validate: Callable[[Json], Iterable[Mistake]] = _no_mistake
    validate_update: Callable[[Json, Json], Iterable[Mistake]] = _no_mistake
    validate_status: Callable[[Json, Json], Iterable[Mistake]] = _no_mistake
    # Of other parts that are written apart, each by its name.
    validate_parts: Mapping[str, Callable[[Json, Json], Iterable[Mistake]]] = field(default_factory=dict)
    warn: Callable[[Json], Iterable[str]] = no_warning
    # Of a change, given the former object.
    warn_change: Callable[[Json, Json], Iterable[str]] = _no_change_warning
    # A generation counts changes of the spec; a Deployment's, for its history of revisions, those of annotations too.
    counts_annotations: bool = False


def _prepare_pod(pod: Json) -> None:
    # A class that the client names is believed.
    pod["status"] = {"phase": "Pending", "qosClass": pod["status"].get("qosClass") or str(pod_from(pod).qos)}
    if pod["spec"].get("schedulingGates"):
        gated = {"type": "PodScheduled", "status": "False", "lastProbeTime": None}
        gated["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
        gated |= {"reason": "SchedulingGated", "message": _GATED}
        pod["status"]["conditions"] = [gated]
    merge_label_keys(pod["spec"], pod["metadata"].get("labels") or {})


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


def _default_node(node: Json) -> None:
    spec, status = node["spec"], node["status"]
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])
    round_amounts(status, ("capacity", "allocatable"))
    # The first range is shown twice; where the two differ, the older field counts.
    first, several = spec.get("podCIDR", ""), spec.get("podCIDRs") or []
    if first and (not several or several[0] != first):
        spec["podCIDRs"] = [first]
    elif several:
        spec["podCIDR"] = several[0]


def _default_namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    namespace["status"] = {**(namespace.get("status") or {}), "phase": namespace["status"].get("phase") or "Active"}


def _prepare_namespace(namespace: Json) -> None:
    # Its name may have been made just now.
    _default_namespace(namespace)
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].get("finalizers") or []
    namespace["spec"] = {**namespace["spec"], "finalizers": [*finalizers, *({"kubernetes"} - set(finalizers))]}


def _keep_namespace_spec(namespace: Json, old: Json) -> None:
    """Its finalizers are written apart."""
    namespace["spec"] = old["spec"]


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
    # What the client has written stays; the validation refuses what does not fit.
    spec["template"]["metadata"]["labels"] = {**made, **labels}
    selector = spec.get("selector") or {}
    matched = {"batch.kubernetes.io/controller-uid": uid, **(selector.get("matchLabels") or {})}
    spec["selector"] = {**selector, "matchLabels": dict(sorted(matched.items()))}
    # Those that it has from the template, too, are the template's.
    if job["metadata"].get("labels") and job["metadata"]["labels"] is labels:
        job["metadata"]["labels"] = spec["template"]["metadata"]["labels"]


def _prepare_service(service: Json) -> None:
    """Which families it gets is decided before the rest is looked at."""
    service["status"] = empty_struct("ServiceStatus")
    repeat_address(service)
    _refuse_service(service, give_families(service, None))


def _change_service(service: Json, old: Json) -> None:
    _refuse_service(service, change_service(service, old))


def _refuse_service(service: Json, mistakes: list[Mistake]) -> None:
    if mistakes:
        raise refusal("", "Service", service["metadata"].get("name", ""), mistakes)


def _drop_lease_fields(lease: Json) -> None:
    for key in _ELECTION_FIELDS:
        lease["spec"].pop(key, None)


def _keep_lease_fields(lease: Json, old: Json) -> None:
    """Kubernetes elects no leaders by itself, and keeps these only where an object has them already."""
    for key in _ELECTION_FIELDS:
        if key not in old["spec"]:
            lease["spec"].pop(key, None)


def _drop_node_source(node: Json, old: Json | None = None) -> None:
    """A configuration of the kubelet that came from the API, which no kubelet reads any more."""
    if old is None or "configSource" not in old["spec"]:
        node["spec"].pop("configSource", None)
    if old is None:
        node["status"].pop("config", None)


def _complete_node_status(status: Json, old: Json) -> None:
    """As above, of what the kubelet made of it."""
    if "config" not in old:
        status.pop("config", None)


def _prepare_stateful_set(value: Json) -> None:
    value["status"] = empty_struct("StatefulSetStatus")
    _keep_unavailable(value, {"spec": {}})


def _keep_unavailable(value: Json, old: Json) -> None:
    """Kubernetes replaces one pod at a time by default, and keeps another number only where there is one already."""
    rolling, former = (((each["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}) for each in (value, old))
    if "maxUnavailable" not in former:
        rolling.pop("maxUnavailable", None)


def _default_daemon_set(value: Json) -> None:
    """The annotation is a field inside Kubernetes, and a field is there from the beginning."""
    default_daemon_set(value)
    _number_template(value, _template_number(value))


def _prepare_daemon_set(value: Json) -> None:
    value["status"] = empty_struct("DaemonSetStatus")
    _number_template(value, max(_template_number(value), 1))


def _renumber_template(value: Json, old: Json) -> None:
    has_changed = value["spec"]["template"] != old["spec"]["template"]
    _number_template(value, _template_number(old) + has_changed)


def _template_number(value: Json) -> int:
    text = (value["metadata"].get("annotations") or {}).get(TEMPLATE_NUMBER, "")
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else 0


def _warn_renumbered_template(new: Json, old: Json) -> Iterable[str]:
    if _template_number(new) != _template_number(old):
        yield from pod_warnings(new["spec"]["template"], "spec.template")


def _number_template(value: Json, number: int) -> None:
    """How often the template has changed, where old clients look for it."""
    annotations = value["metadata"].get("annotations") or {}
    value["metadata"]["annotations"] = {**annotations, TEMPLATE_NUMBER: str(number)}


def _prepare_slice(value: Json) -> None:
    """Without a field of the old version, which this one does not write; a list without elements is null."""
    for key in ("endpoints", "ports"):
        value[key] = value.get(key) or None
    for each in value["endpoints"] or ():
        each.pop("deprecatedTopology", None)


def _change_slice(value: Json, old: Json) -> None:
    if value.get("endpoints") != old.get("endpoints") or not value.get("ports"):
        _prepare_slice(value)


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
    validate_parts={"ephemeralcontainers": validate_ephemeral_update, "resize": validate_resize},
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
    # Old kubelets write them wrongly, and garbage collection depends on them.
    kept_by_status=("ownerReferences", "deletionTimestamp"),
    complete_status=_complete_pod_status,
    warn=warn_pod,
)
NODE_RULES: Final = Rules(
    default=_default_node,
    prepare=_drop_node_source,
    warn=warn_node,
    warn_change=_as_new(warn_node),
    complete_status=_complete_node_status,
    prepare_change=_drop_node_source,
    validate=validate_node,
    validate_update=validate_node_update,
    validate_status=validate_node_status,
    validate_changed_metadata=(),
    validate_status_metadata=(),
)
NAMESPACE_RULES: Final = Rules(
    default=_default_namespace,
    prepare=_prepare_namespace,
    prepare_change=_keep_namespace_spec,
    name=label_name,
    validate=validate_namespace,
    validate_update=validate_namespace_update,
    validate_status=validate_namespace_status,
    validate_changed_metadata=(_whole_metadata(label_name), validate_known_metadata_update),
)
EVENT_RULES: Final = Rules(
    name=path_segment_name,
    validate_new_metadata=_no_mistake,
    validate_changed_metadata=(),
    validate=validate_event,
    validate_update=validate_event_update,
)
NEW_EVENT_RULES: Final = Rules(
    # Between the other checks.
    validate_new_metadata=_no_mistake,
    validate_changed_metadata=(),
    validate=validate_new_event,
    validate_update=validate_new_event_update,
)
BUDGET_RULES: Final = Rules(
    default=_default_budget,
    prepare=_fresh_status("PodDisruptionBudgetStatus"),
    name=path_segment_name,
    validate_new_metadata=_no_mistake,
    validate_changed_metadata=(),
    validate_status_metadata=(),
    validate=validate_budget,
    validate_update=validate_budget_update,
    validate_status=validate_budget_status,
)
DAEMON_SET_RULES: Final = Rules(
    warn=warn_template(),
    default=_default_daemon_set,
    prepare=_prepare_daemon_set,
    prepare_change=_renumber_template,
    validate=validate_daemon_set,
    validate_update=validate_daemon_set_update,
    validate_status=validate_daemon_set_status,
    warn_change=_warn_renumbered_template,
)
DEPLOYMENT_RULES: Final = Rules(
    warn=warn_template(warn_pods_names),
    default=default_deployment,
    prepare=_fresh_status("DeploymentStatus"),
    validate=validate_deployment,
    validate_update=validate_deployment_update,
    validate_status=replicas_status_check("Deployment"),
    kept_by_status=("labels",),
    counts_annotations=True,
    warn_change=warn_changed_template,
)
REPLICA_SET_RULES: Final = Rules(
    warn=warn_template(warn_pods_names),
    default=default_replica_set,
    prepare=_fresh_status("ReplicaSetStatus"),
    validate=validate_replica_set,
    validate_update=validate_replica_set_update,
    validate_status=replicas_status_check("ReplicaSet"),
    warn_change=warn_changed_template,
)
REPLICATION_CONTROLLER_RULES: Final = Rules(
    warn=warn_template(warn_pods_names),
    default=default_replication_controller,
    prepare=_fresh_status("ReplicationControllerStatus"),
    validate_new_metadata=_own_metadata,
    validate=validate_replication_controller,
    validate_update=validate_replication_controller_update,
    validate_status=replicas_status_check("ReplicationController"),
    warn_change=warn_former_template,
)
STATEFUL_SET_RULES: Final = Rules(
    default=default_stateful_set,
    prepare=_prepare_stateful_set,
    prepare_change=_keep_unavailable,
    name=label_name,
    validate=validate_stateful_set,
    validate_update=validate_stateful_set_update,
    validate_status=validate_stateful_set_status,
    validate_changed_metadata=(),
    validate_status_metadata=(),
    warn=warn_stateful_set,
    warn_change=warn_changed_stateful_set,
)
JOB_RULES: Final = Rules(
    default=default_job,
    prepare=_prepare_job,
    read_back=default_job,
    validate=validate_job,
    validate_update=validate_job_update,
    validate_status=validate_job_status,
    # Between the other checks.
    validate_changed_metadata=(),
    validate_status_metadata=(),
    warn=warn_job,
    warn_change=warn_changed_job,
)
SERVICE_RULES: Final = Rules(
    default=default_service,
    prepare=_prepare_service,
    prepare_change=_change_service,
    name=label_name,
    validate=validate_service,
    validate_update=validate_service_update,
    validate_status=validate_service_status,
    warn=warn_service,
    warn_change=_as_new(warn_changed_service),
)
ENDPOINTS_RULES: Final = Rules(
    default=default_endpoints,
    validate=validate_endpoints,
    validate_update=validate_endpoints_update,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
    warn=warn_endpoints,
    warn_change=_as_new(warn_endpoints),
)
ENDPOINT_SLICE_RULES: Final = Rules(
    default=default_endpoint_slice,
    prepare=_prepare_slice,
    prepare_change=_change_slice,
    validate=validate_endpoint_slice,
    validate_update=validate_endpoint_slice_update,
    warn=warn_endpoint_slice,
    warn_change=_as_new(warn_changed_slice),
    validate_changed_metadata=(_whole_metadata(),),
)
PRIORITY_CLASS_RULES: Final = Rules(
    default=_default_priority_class, validate=validate_priority_class, validate_update=validate_priority_class_update
)
RUNTIME_CLASS_RULES: Final = Rules(
    validate=validate_runtime_class,
    validate_update=validate_runtime_class_update,
    validate_new_metadata=validate_metadata,
    validate_changed_metadata=(_whole_metadata(validate=validate_metadata),),
    warn=warn_runtime_class,
    warn_change=_as_new(warn_runtime_class),
)
LEASE_RULES: Final = Rules(
    prepare=_drop_lease_fields,
    prepare_change=_keep_lease_fields,
    validate=validate_lease,
    validate_update=validate_lease_update,
    validate_new_metadata=validate_metadata,
    validate_changed_metadata=(validate_metadata_update,),
)
CONFIG_MAP_RULES: Final = Rules(
    default=default_config_map,
    validate=validate_config_map,
    validate_update=validate_config_map_update,
)
SECRET_RULES: Final = Rules(
    default=default_secret,
    validate=validate_secret,
    validate_update=validate_secret_update,
    warn=warn_secret,
    warn_change=_as_new(warn_secret),
)
ACCOUNT_RULES: Final = Rules(
    default=default_account,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
    warn=warn_account,
    warn_change=warn_changed_account,
)
REVISION_RULES: Final = Rules(
    validate=validate_revision,
    validate_update=validate_revision_update,
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
)
