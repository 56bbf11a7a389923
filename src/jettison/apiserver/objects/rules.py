"""THE table of what is special about each kind: its defaults, first status, validation and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from jettison.apiserver.objects.defaults import (
    default_budget,
    default_deployment,
    default_endpoint_slice,
    default_endpoints,
    default_job,
    default_namespace,
    default_node,
    default_pod,
    default_priority_class,
    default_replica_set,
    default_replication_controller,
    default_service,
    default_stateful_set,
)
from jettison.apiserver.objects.preparing import (
    change_slice,
    complete_node_status,
    complete_pod_status,
    default_numbered_set,
    drop_from_pod,
    drop_from_template,
    drop_lease_fields,
    drop_node_source,
    fresh_status,
    keep_lease_fields,
    keep_namespace_spec,
    keep_unavailable,
    prepare_daemon_set,
    prepare_job,
    prepare_namespace,
    prepare_pod,
    prepare_slice,
    prepare_stateful_set,
    renumber_template,
)
from jettison.apiserver.objects.runtime_classes import (
    validate_runtime_class,
    validate_runtime_class_update,
    warn_runtime_class,
)
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
from jettison.apiserver.objects.validation.mistakes import Mistake
from jettison.apiserver.objects.validation.pod.pod_statuses import validate_pod_status
from jettison.apiserver.objects.validation.pod.pods import (
    validate_ephemeral_update,
    validate_pod,
    validate_pod_update,
    validate_resize,
)
from jettison.apiserver.objects.validation.service_changes import prepare_changed_service, prepare_service
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
    warn_changed_job,
    warn_changed_stateful_set,
    warn_changed_template,
    warn_former_template,
    warn_job,
    warn_node,
    warn_pod,
    warn_pods_names,
    warn_renumbered_template,
    warn_stateful_set,
    warn_template,
)
from jettison.values import frozen

Json = dict[str, Any]


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
    # What the kind has, and this version does not keep.
    drop: Callable[[Json], None] = _nothing
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


PLAIN_RULES: Final = Rules()
POD_RULES: Final = Rules(
    default=default_pod,
    drop=drop_from_pod,
    prepare=prepare_pod,
    validate=validate_pod,
    validate_update=validate_pod_update,
    validate_status=validate_pod_status,
    validate_parts={"ephemeralcontainers": validate_ephemeral_update, "resize": validate_resize},
    validate_changed_metadata=(validate_known_metadata_update, _whole_metadata()),
    # Old kubelets write them wrongly, and garbage collection depends on them.
    kept_by_status=("ownerReferences", "deletionTimestamp"),
    complete_status=complete_pod_status,
    warn=warn_pod,
)
NODE_RULES: Final = Rules(
    default=default_node,
    prepare=drop_node_source,
    warn=warn_node,
    warn_change=_as_new(warn_node),
    complete_status=complete_node_status,
    prepare_change=drop_node_source,
    validate=validate_node,
    validate_update=validate_node_update,
    validate_status=validate_node_status,
    validate_changed_metadata=(),
    validate_status_metadata=(),
)
NAMESPACE_RULES: Final = Rules(
    default=default_namespace,
    prepare=prepare_namespace,
    prepare_change=keep_namespace_spec,
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
    default=default_budget,
    prepare=fresh_status("PodDisruptionBudgetStatus"),
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
    default=default_numbered_set,
    drop=drop_from_template,
    prepare=prepare_daemon_set,
    prepare_change=renumber_template,
    validate=validate_daemon_set,
    validate_update=validate_daemon_set_update,
    validate_status=validate_daemon_set_status,
    warn_change=warn_renumbered_template,
)
DEPLOYMENT_RULES: Final = Rules(
    warn=warn_template(warn_pods_names),
    default=default_deployment,
    drop=drop_from_template,
    prepare=fresh_status("DeploymentStatus"),
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
    drop=drop_from_template,
    prepare=fresh_status("ReplicaSetStatus"),
    validate=validate_replica_set,
    validate_update=validate_replica_set_update,
    validate_status=replicas_status_check("ReplicaSet"),
    warn_change=warn_changed_template,
)
REPLICATION_CONTROLLER_RULES: Final = Rules(
    warn=warn_template(warn_pods_names),
    default=default_replication_controller,
    drop=drop_from_template,
    prepare=fresh_status("ReplicationControllerStatus"),
    validate_new_metadata=_own_metadata,
    validate=validate_replication_controller,
    validate_update=validate_replication_controller_update,
    validate_status=replicas_status_check("ReplicationController"),
    warn_change=warn_former_template,
)
STATEFUL_SET_RULES: Final = Rules(
    default=default_stateful_set,
    drop=drop_from_template,
    prepare=prepare_stateful_set,
    prepare_change=keep_unavailable,
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
    drop=drop_from_template,
    prepare=prepare_job,
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
    prepare=prepare_service,
    prepare_change=prepare_changed_service,
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
    prepare=prepare_slice,
    prepare_change=change_slice,
    validate=validate_endpoint_slice,
    validate_update=validate_endpoint_slice_update,
    warn=warn_endpoint_slice,
    warn_change=_as_new(warn_changed_slice),
    validate_changed_metadata=(_whole_metadata(),),
)
PRIORITY_CLASS_RULES: Final = Rules(
    default=default_priority_class, validate=validate_priority_class, validate_update=validate_priority_class_update
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
    prepare=drop_lease_fields,
    prepare_change=keep_lease_fields,
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
