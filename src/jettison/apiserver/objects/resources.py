"""THE table: what the API serves, one row per resource.

Discovery, authorization, tables, storage and the handlers all read these rows; a resource that is not here does not
exist, and one that is here needs no other line to be created, listed, watched, patched and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jettison.apiserver.objects import rules
from jettison.apiserver.objects.preparing import TEMPLATE_NUMBER
from jettison.apiserver.objects.rules import Rules
from jettison.values import frozen

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_READ_AND_WRITE: Final = ("get", "patch", "update")
_PROXY_VERBS: Final = ("create", "delete", "get", "patch", "update")
_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")

_EVENT_FIELDS: Final = (
    *_METADATA_FIELDS, "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
    "reportingComponent", "source", "type",
)  # fmt: skip
NEW_EVENT_FIELDS: Final = {
    {"reportingComponent": "reportingController"}.get(each, each.replace("involvedObject", "regarding")): each
    for each in _EVENT_FIELDS
    if each != "source"
}
"""What events of the newer form can be selected by. New name → name in the core group."""

# Events have two forms, one for each group, and are kept in the older one. New name → name in the core group.
_EVENT_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_UNWRITTEN: Final = ("reportingController", "reportingInstance")
_OLD_EVENT_NAMES: Final = {old: new for new, old in _EVENT_NAMES.items()}


@frozen
class Subresource:
    """A part of an object with a path, verbs and sometimes a kind of its own.

    `group` and `version` are empty where they are the parent's; kubectl drain looks at them to choose eviction.
    """

    name: str
    kind: str
    verbs: tuple[str, ...] = _READ_AND_WRITE
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One row; a row is equal to itself only."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    # A review is answered, not kept.
    is_stored: bool = True
    # The paths a field selector may name; the complaint about another differs where a kind has a list of its own.
    selectable_fields: tuple[str, ...] = _METADATA_FIELDS
    # Whether metadata.generation counts changes of the spec.
    counts_generations: bool = False
    # Whether it counts those of everything else and of labels, because there is no spec.
    is_generation_of_all: bool = False
    # Whether a PUT may come without metadata.resourceVersion, and whether it may create the object.
    takes_unconditional_put: bool = True
    is_created_by_put: bool = False
    # Whether DELETE answers with the object; the others answer with a Status.
    answers_with_object: bool = False
    # What every client of the resource is told.
    deprecation: str = ""
    # Why none can be made, where Kubernetes could.
    absence: str = ""
    # An annotation that is a field inside Kubernetes, and so is not part of the metadata alone.
    inner_annotation: str = ""
    # Stored under another row's name: events.k8s.io shows the very events of the core group.
    stored_as: str = ""
    # Defaults, first status, validation and warnings of its kind.
    rules: Rules = rules.PLAIN_RULES
    # The name under which `schema` has its fields; the kind, unless two groups have one of the same name.
    struct: str = ""

    # What follows from the above, kept because every request asks for it several times.
    # As objects carry it: `policy/v1`, or `v1` alone in the core group.
    api_version: str = field(init=False)
    # As error messages name it: `poddisruptionbudgets.policy`, or `pods` alone in the core group.
    qualified: str = field(init=False)
    # The name that its objects are kept under.
    storage: str = field(init=False)
    # Whether the status is written apart from the rest.
    has_status: bool = field(init=False)

    def __post_init__(self) -> None:
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        for name, value in (
            ("struct", self.struct or self.kind),
            ("api_version", f"{self.group}/{self.version}" if self.group else self.version),
            ("qualified", qualified),
            ("storage", self.stored_as or qualified),
            ("has_status", self.subresource("status") is not None),
        ):
            object.__setattr__(self, name, value)

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name, if there is one."""
        for each in self.subresources:
            if each.name == name:
                return each
        return None


def _status(kind: str) -> Subresource:
    return Subresource("status", kind)


_SCALE: Final = Subresource("scale", "Scale", group="autoscaling", version="v1")

PODS: Final = Resource(
    "", "v1", "Pod", "pods", "pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("attach", "PodAttachOptions", ("create", "get")),
        Subresource("binding", "Binding", ("create",)),
        Subresource("ephemeralcontainers", "Pod"),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", ("create", "get")),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
        Subresource("proxy", "PodProxyOptions", _PROXY_VERBS),
        Subresource("resize", "Pod"),
        _status("Pod"),
    ),
    selectable_fields=(
        *_METADATA_FIELDS, "spec.nodeName", "spec.host", "spec.restartPolicy", "spec.schedulerName",
        "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs",
        "status.nominatedNodeName",
    ),
    counts_generations=True,
    answers_with_object=True,
    rules=rules.POD_RULES,
)  # fmt: skip
NODES: Final = Resource(
    "", "v1", "Node", "nodes", "node",
    is_namespaced=False,
    short_names=("no",),
    subresources=(Subresource("proxy", "NodeProxyOptions", _PROXY_VERBS), _status("Node")),
    selectable_fields=("metadata.name", "spec.unschedulable"),
    rules=rules.NODE_RULES,
)  # fmt: skip
NAMESPACES: Final = Resource(
    "", "v1", "Namespace", "namespaces", "namespace",
    is_namespaced=False,
    short_names=("ns",),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
    selectable_fields=("metadata.name", "status.phase"),
    answers_with_object=True,
    rules=rules.NAMESPACE_RULES,
)  # fmt: skip
EVENTS: Final = Resource(
    "", "v1", "Event", "events", "event",
    short_names=("ev",),
    selectable_fields=_EVENT_FIELDS,
    is_created_by_put=True,
    rules=rules.EVENT_RULES,
)  # fmt: skip
NEW_EVENTS: Final = Resource(
    "events.k8s.io", "v1", "Event", "events", "event",
    short_names=("ev",),
    selectable_fields=tuple(NEW_EVENT_FIELDS),
    is_created_by_put=True,
    stored_as=EVENTS.storage,
    struct="EventsV1Event",
    rules=rules.NEW_EVENT_RULES,
)  # fmt: skip
SERVICE_ACCOUNTS: Final = Resource(
    "", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount",
    short_names=("sa",),
    subresources=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    answers_with_object=True,
    rules=rules.ACCOUNT_RULES,
)  # fmt: skip
CONFIG_MAPS: Final = Resource(
    "", "v1", "ConfigMap", "configmaps", "configmap",
    short_names=("cm",),
    rules=rules.CONFIG_MAP_RULES,
)  # fmt: skip
SECRETS: Final = Resource(
    "", "v1", "Secret", "secrets", "secret",
    selectable_fields=(*_METADATA_FIELDS, "type"),
    rules=rules.SECRET_RULES,
)  # fmt: skip
SERVICES: Final = Resource(
    "", "v1", "Service", "services", "service",
    short_names=("svc",),
    categories=("all",),
    subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY_VERBS), _status("Service")),
    selectable_fields=(*_METADATA_FIELDS, "spec.clusterIP", "spec.type"),
    is_created_by_put=True,
    answers_with_object=True,
    rules=rules.SERVICE_RULES,
)  # fmt: skip
ENDPOINTS: Final = Resource(
    "", "v1", "Endpoints", "endpoints", "endpoints",
    short_names=("ep",),
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    is_created_by_put=True,
    rules=rules.ENDPOINTS_RULES,
)  # fmt: skip
ENDPOINT_SLICES: Final = Resource(
    "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "endpointslice",
    counts_generations=True,
    is_generation_of_all=True,
    rules=rules.ENDPOINT_SLICE_RULES,
)  # fmt: skip
REPLICATION_CONTROLLERS: Final = Resource(
    "", "v1", "ReplicationController", "replicationcontrollers", "replicationcontroller",
    short_names=("rc",),
    categories=("all",),
    subresources=(_SCALE, _status("ReplicationController")),
    selectable_fields=(*_METADATA_FIELDS, "status.replicas"),
    counts_generations=True,
    rules=rules.REPLICATION_CONTROLLER_RULES,
)  # fmt: skip
BINDINGS: Final = Resource("", "v1", "Binding", "bindings", "binding", verbs=("create",), is_stored=False)
BUDGETS: Final = Resource(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget",
    short_names=("pdb",),
    subresources=(_status("PodDisruptionBudget"),),
    counts_generations=True,
    takes_unconditional_put=False,
    rules=rules.BUDGET_RULES,
)  # fmt: skip
DAEMON_SETS: Final = Resource(
    "apps", "v1", "DaemonSet", "daemonsets", "daemonset",
    short_names=("ds",),
    categories=("all",),
    subresources=(_status("DaemonSet"),),
    counts_generations=True,
    inner_annotation=TEMPLATE_NUMBER,
    rules=rules.DAEMON_SET_RULES,
)  # fmt: skip
DEPLOYMENTS: Final = Resource(
    "apps", "v1", "Deployment", "deployments", "deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=(_SCALE, _status("Deployment")),
    counts_generations=True,
    rules=rules.DEPLOYMENT_RULES,
)  # fmt: skip
REPLICA_SETS: Final = Resource(
    "apps", "v1", "ReplicaSet", "replicasets", "replicaset",
    short_names=("rs",),
    categories=("all",),
    subresources=(_SCALE, _status("ReplicaSet")),
    counts_generations=True,
    rules=rules.REPLICA_SET_RULES,
)  # fmt: skip
STATEFUL_SETS: Final = Resource(
    "apps", "v1", "StatefulSet", "statefulsets", "statefulset",
    short_names=("sts",),
    categories=("all",),
    subresources=(_SCALE, _status("StatefulSet")),
    counts_generations=True,
    rules=rules.STATEFUL_SET_RULES,
)  # fmt: skip
CONTROLLER_REVISIONS: Final = Resource(
    "apps", "v1", "ControllerRevision", "controllerrevisions", "controllerrevision",
    rules=rules.REVISION_RULES,
)  # fmt: skip
JOBS: Final = Resource(
    "batch", "v1", "Job", "jobs", "job",
    categories=("all",),
    subresources=(_status("Job"),),
    selectable_fields=(*_METADATA_FIELDS, "status.successful"),
    counts_generations=True,
    rules=rules.JOB_RULES,
)  # fmt: skip
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "priorityclass",
    is_namespaced=False,
    short_names=("pc",),
    counts_generations=True,
    rules=rules.PRIORITY_CLASS_RULES,
)  # fmt: skip
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", "runtimeclass",
    is_namespaced=False,
    takes_unconditional_put=False,
    is_created_by_put=True,
    rules=rules.RUNTIME_CLASS_RULES,
)  # fmt: skip
# kubectl asks for them wherever a manifest names a kind that it does not find, and takes a 404 for a failure.
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "customresourcedefinition",
    is_namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    verbs=("get", "list", "watch"),
    absence="Jettison has no custom resources",
)  # fmt: skip
LEASES: Final = Resource(
    "coordination.k8s.io", "v1", "Lease", "leases", "lease",
    takes_unconditional_put=False,
    is_created_by_put=True,
    rules=rules.LEASE_RULES,
)  # fmt: skip


SCALES: Final = Resource("autoscaling", "v1", "Scale", "scales", "scale", verbs=(), is_stored=False)
"""How a scale is shown; it has no path of its own."""


def _review(group: str, kind: str, *, is_namespaced: bool = False) -> Resource:
    plural = kind.lower() + "s"
    return Resource(
        group, "v1", kind, plural, kind.lower(), is_namespaced, verbs=("create",), is_stored=False
    )  # fmt: skip


LOCAL_ACCESS_REVIEWS: Final = _review("authorization.k8s.io", "LocalSubjectAccessReview", is_namespaced=True)
SELF_ACCESS_REVIEWS: Final = _review("authorization.k8s.io", "SelfSubjectAccessReview")
SELF_RULES_REVIEWS: Final = _review("authorization.k8s.io", "SelfSubjectRulesReview")
ACCESS_REVIEWS: Final = _review("authorization.k8s.io", "SubjectAccessReview")
SELF_REVIEWS: Final = _review("authentication.k8s.io", "SelfSubjectReview")
TOKEN_REVIEWS: Final = _review("authentication.k8s.io", "TokenReview")

NODE_METRICS: Final = Resource(
    "metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", "", is_namespaced=False, verbs=("get", "list"), is_stored=False
)  # fmt: skip
POD_METRICS: Final = Resource(
    "metrics.k8s.io", "v1beta1", "PodMetrics", "pods", "", verbs=("get", "list"), is_stored=False
)  # fmt: skip

RESOURCES: Final[tuple[Resource, ...]] = (
    BINDINGS, CONFIG_MAPS, ENDPOINTS, EVENTS, NAMESPACES, NODES, PODS, REPLICATION_CONTROLLERS, SECRETS,
    SERVICE_ACCOUNTS, SERVICES,
    CUSTOM_RESOURCE_DEFINITIONS,
    CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS,
    SELF_REVIEWS, TOKEN_REVIEWS,
    LOCAL_ACCESS_REVIEWS, SELF_ACCESS_REVIEWS, SELF_RULES_REVIEWS, ACCESS_REVIEWS,
    JOBS,
    LEASES,
    ENDPOINT_SLICES,
    NEW_EVENTS,
    RUNTIME_CLASSES,
    BUDGETS,
    PRIORITY_CLASSES,
    NODE_METRICS, POD_METRICS,
)  # fmt: skip
"""In the order discovery shows them."""

ABSENT: Final[Mapping[str, frozenset[str]]] = {
    group: frozenset(plurals.split())
    for group, plurals in {
        "": "componentstatuses limitranges persistentvolumeclaims persistentvolumes podtemplates resourcequotas",
        "admissionregistration.k8s.io": "mutatingadmissionpolicies mutatingadmissionpolicybindings "
        "mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings "
        "validatingwebhookconfigurations",
        "apiregistration.k8s.io": "apiservices",
        "autoscaling": "horizontalpodautoscalers",
        "batch": "cronjobs",
        "certificates.k8s.io": "certificatesigningrequests",
        "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
        "networking.k8s.io": "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
        "rbac.authorization.k8s.io": "clusterrolebindings clusterroles rolebindings roles",
        "resource.k8s.io": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
        "storage.k8s.io": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments "
        "volumeattributesclasses",
    }.items()
}
"""What Kubernetes serves and Jettison does not, by group, so that a refusal can say so."""

_BY_PATH: Final[Mapping[tuple[str, str, str], Resource]] = {
    (each.group, each.version, each.plural): each for each in RESOURCES
}
GROUP_VERSIONS: Final[tuple[tuple[str, str], ...]] = tuple(
    dict.fromkeys((each.group, each.version) for each in RESOURCES)
)
"""Every (group, version) that is served, the core group first."""


def find_resource(group: str, version: str, plural: str) -> Resource | None:
    """The row that a path such as `/apis/policy/v1/poddisruptionbudgets` names."""
    return _BY_PATH.get((group, version, plural))


def stored_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of events.k8s.io as it is kept."""
    return {_EVENT_NAMES.get(key, key): value for key, value in event.items()}


def shown_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """A kept event as events.k8s.io shows it: without what the core group writes even if it is empty."""
    shown = {_OLD_EVENT_NAMES.get(key, key): value for key, value in event.items()}
    return {key: value for key, value in shown.items() if value or key not in _UNWRITTEN}
