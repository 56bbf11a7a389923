"""Objects as the rows that `kubectl get` prints. The server draws the table: kubectl alone knows only NAME and AGE.

A printer has the columns of a resource and the function that fills its cells from a plain object and the time; the
names and their order are kubectl's, as people know. A column is written `Name`, with `:integer` or `:boolean` behind it
where it is no text, and with `*` where only `-o wide` shows it. All cells are always sent, kubectl hides. Nothing in
here looks into the store or refuses anything but a wrong `includeObject`; an object with nonsense in it is drawn with
empty cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from jettison.apiserver.http.forms import TABLE, metadata_of
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.cells import (
    POD_COLUMNS,
    UNKNOWN,
    Json,
    ShownMetadata,
    ShownPod,
    age,
    between,
    holds_condition,
    is_true,
    number,
    part,
    parts,
    pod_cells,
    text,
)
from jettison.apiserver.objects.resources import Resource
from jettison.engine.labels.selectors import MatchExpression, SelectorObject, select
from jettison.engine.numbers.quantity import ZERO, parse
from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError, QuantityError
from jettison.values import frozen

Cells = Callable[[Json, int], list[object]]
RowSource = tuple[Json, object]
"""What the cells of a row are made of, and what the row shows of the object beside them."""

_TEMPLATE_COLUMNS = ("Containers*", "Images*", "Selector*")
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_NONE = "<none>"

_DAEMON_COUNTS = (
    "desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable",
)  # fmt: skip

_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")

_EVENT_COLUMNS = (
    "Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message", "First Seen*", "Count*", "Name*",
)  # fmt: skip
_NODE_COLUMNS = (
    "Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*", "Kernel-Version*",
    "Container-Runtime*",
)  # fmt: skip
_DAEMON_COLUMNS = (
    "Name", "Desired:integer", "Current:integer", "Ready:integer", "Up-to-date:integer", "Available:integer",
    "Node Selector", "Age", *_TEMPLATE_COLUMNS,
)  # fmt: skip
_REPLICA_SET_COLUMNS = ("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", *_TEMPLATE_COLUMNS)
_BUDGET_COLUMNS = ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age")
_CLASS_COLUMNS = ("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy")

_GROUP_VERSION = "meta.k8s.io/v1"


_decode = msgspec.json.Decoder().decode
_decode_metadata = msgspec.json.Decoder(ShownMetadata).decode
_encode = msgspec.json.Encoder().encode
_SCALES = "scales.autoscaling"
_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _no_conditions(value: Json) -> dict[str, Any]:
    del value
    return {}


def _pod_conditions(pod: Json) -> dict[str, Any]:
    phase = text(part(pod, "status"), "phase")
    if phase not in _ENDS:
        return {}
    return {"conditions": [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]}


@frozen
class Printer:
    """One resource's columns, and the function that fills them from an object and the time."""

    columns: tuple[str, ...]
    cells: Cells
    # What is so special about the object that clients may want to hide it.
    conditions: Callable[[Json], dict[str, Any]] = _no_conditions
    # The part of the object that the row is made of; without it the whole.
    shape: type | None = None


def _name(value: Json) -> str:
    return text(value, "metadata.name")


def _age(value: Json, now_ns: int) -> str:
    return age(text(value, "metadata.creationTimestamp"), now_ns)


def _template(value: Json) -> list[object]:
    containers = parts(value, "spec.template.spec.containers")
    return [",".join(text(each, key) for each in containers) for key in ("name", "image")]


def _plain(value: Json, now_ns: int) -> list[object]:
    return [_name(value), _age(value, now_ns)]


def _namespace(value: Json, now_ns: int) -> list[object]:
    return [_name(value), text(value, "status.phase"), _age(value, now_ns)]


def _node(value: Json, now_ns: int) -> list[object]:
    conditions = {each.get("type") for each in parts(value, "status.conditions")}
    ready = "Ready" if holds_condition(value, "Ready") else "NotReady" if "Ready" in conditions else "Unknown"
    status = f"{ready},SchedulingDisabled" if is_true(value, "spec.unschedulable") else ready
    info = part(value, "status.nodeInfo")
    image, kernel, runtime = (
        text(info, key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")
    )
    if architecture := text(info, "architecture"):
        kernel += f" ({architecture})"
    wide = (image, kernel, runtime)
    addresses = (_address(value, kind) for kind in ("InternalIP", "ExternalIP"))
    return [_name(value), status, _roles(value), _age(value, now_ns), text(info, "kubeletVersion"), *addresses, *wide]


def _address(node: Json, kind: str) -> str:
    found = (text(each, "address") for each in parts(node, "status.addresses") if each.get("type") == kind)
    return next(found, _NONE)


def _roles(node: Json) -> str:
    found = set()
    for key, value in part(node, "metadata.labels").items():
        if key.startswith(_ROLE_PREFIX):
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL and isinstance(value, str):
            found.add(value)
    return ",".join(sorted(found - {""})) or _NONE


def _event(value: Json, now_ns: int) -> list[object]:
    """Of the core group, or of events.k8s.io: the same events under other names."""
    about = part(value, "involvedObject") or part(value, "regarding")
    kind, name = text(about, "kind").lower(), text(about, "name")
    born = text(value, "eventTime")
    first = text(value, "firstTimestamp") or text(value, "deprecatedFirstTimestamp") or born
    last = text(value, "lastTimestamp") or text(value, "deprecatedLastTimestamp") or first
    count = number(value, "count") or number(value, "deprecatedCount") or 1
    if series := part(value, "series"):
        last, count = text(series, "lastObservedTime"), number(series, "count")
    source = part(value, "source") or part(value, "deprecatedSource")
    component = text(source, "component") or text(value, "reportingComponent") or text(value, "reportingController")
    host = text(source, "host") or text(value, "reportingInstance")
    return [
        age(last, now_ns),
        text(value, "type"),
        text(value, "reason"),
        f"{kind}/{name}" if name else kind,
        text(about, "fieldPath"),
        f"{component}, {host}" if host else component,
        (text(value, "message") or text(value, "note")).strip(),
        age(first, now_ns),
        count,
        _name(value),
    ]


def _budget(value: Json, now_ns: int) -> list[object]:
    spec = part(value, "spec")
    limits = ("N/A" if spec.get(key) is None else str(spec[key]) for key in ("minAvailable", "maxUnavailable"))
    return [_name(value), *limits, number(value, "status.disruptionsAllowed"), _age(value, now_ns)]


def _scale(value: Json, now_ns: int) -> list[object]:
    counts = (number(value, f"{key}.replicas") for key in ("spec", "status"))
    return [_name(value), *counts, _age(value, now_ns)]


def _runtime_class(value: Json, now_ns: int) -> list[object]:
    return [_name(value), text(value, "handler"), _age(value, now_ns)]


def _priority_class(value: Json, now_ns: int) -> list[object]:
    default = is_true(value, "globalDefault")
    return [_name(value), number(value, "value"), default, _age(value, now_ns), text(value, "preemptionPolicy")]


def _replica_set(value: Json, now_ns: int) -> list[object]:
    counts = (number(value, "spec.replicas"), number(value, "status.replicas"), number(value, "status.readyReplicas"))
    return [_name(value), *counts, _age(value, now_ns), *_template(value), selector_text(value) or _NONE]


def _replication_controller(value: Json, now_ns: int) -> list[object]:
    return [*_replica_set(value, now_ns)[:-1], labels_text(part(value, "spec.selector"))]


def _deployment(value: Json, now_ns: int) -> list[object]:
    counts = (number(value, "status.updatedReplicas"), number(value, "status.availableReplicas"))
    wide = (*_template(value), selector_text(value))
    return [_name(value), _ready_replicas(value), *counts, _age(value, now_ns), *wide]


def _stateful_set(value: Json, now_ns: int) -> list[object]:
    return [_name(value), _ready_replicas(value), _age(value, now_ns), *_template(value)]


def _ready_replicas(value: Json) -> str:
    return f"{number(value, 'status.readyReplicas')}/{number(value, 'spec.replicas')}"


def _daemon_set(value: Json, now_ns: int) -> list[object]:
    counts = (number(value, f"status.{key}") for key in _DAEMON_COUNTS)
    where = labels_text(part(value, "spec.template.spec.nodeSelector"))
    wide = (*_template(value), selector_text(value) or _NONE)
    return [_name(value), *counts, where, _age(value, now_ns), *wide]


def _job(value: Json, now_ns: int) -> list[object]:
    if holds_condition(value, "Complete"):
        status = "Complete"
    elif holds_condition(value, "Failed"):
        status = "Failed"
    elif text(value, "metadata.deletionTimestamp"):
        status = "Terminating"
    else:
        status = next((each for each in _JOB_STATES if holds_condition(value, each)), "Running")
    done, parallel = number(value, "status.succeeded"), number(value, "spec.parallelism")
    wanted = str(number(value, "spec.completions", 1))
    if part(value, "spec").get("completions") is None and parallel > 1:
        wanted = f"1 of {parallel}"
    took = between(text(value, "status.startTime"), text(value, "status.completionTime"), now_ns)
    wide = (*_template(value), selector_text(value) or _NONE)
    return [_name(value), status, f"{done}/{wanted}", took, _age(value, now_ns), *wide]


def _lease(value: Json, now_ns: int) -> list[object]:
    return [_name(value), text(value, "spec.holderIdentity"), _age(value, now_ns)]


def _config_map(value: Json, now_ns: int) -> list[object]:
    return [_name(value), len(part(value, "data")) + len(part(value, "binaryData")), _age(value, now_ns)]


def _secret(value: Json, now_ns: int) -> list[object]:
    return [_name(value), text(value, "type"), len(part(value, "data")), _age(value, now_ns)]


def _revision(value: Json, now_ns: int) -> list[object]:
    owners: Iterable[Json] = (each for each in parts(value, "metadata.ownerReferences") if is_true(each, "controller"))
    owner = next(iter(owners), {})
    group, slash, _ = text(owner, "apiVersion").rpartition("/")
    kind = text(owner, "kind").lower() + (f".{group}" if slash else "")
    shown = f"{kind}/{text(owner, 'name')}" if owner else _NONE
    return [_name(value), shown, number(value, "revision"), _age(value, now_ns)]


def _usage(value: Json, now_ns: int) -> list[object]:  # noqa: ARG001  a measurement has a window and no age
    """Of a node, or of all containers of a pod together."""
    each = [part(each, "usage") for each in parts(value, "containers")] or [part(value, "usage")]
    try:
        sums = [str(sum((parse(text(one, name)) for one in each), ZERO)) for name in ("cpu", "memory")]
    except QuantityError:
        sums = [UNKNOWN, UNKNOWN]
    return [_name(value), *sums, text(value, "window")]


_USAGE_COLUMNS = ("Name", "CPU", "Memory", "Window")


def _service(value: Json, now_ns: int) -> list[object]:
    spec = part(value, "spec")
    own = spec.get("clusterIPs") or [_NONE]
    ports = (
        f"{number(each, 'port')}{':' + str(each['nodePort']) if each.get('nodePort') else ''}/{text(each, 'protocol')}"
        for each in parts(value, "spec.ports")
    )
    shown = (text(spec, "type"), str(own[0]), _outside(value), ",".join(ports) or _NONE)
    return [_name(value), *shown, _age(value, now_ns), labels_text(part(spec, "selector"))]


def _outside(service: Json) -> str:
    """Where a service can be reached from elsewhere, if something routed."""
    spec = part(service, "spec")
    if (kind := text(spec, "type")) == "ExternalName":
        return text(spec, "externalName")
    places = []
    if kind == "LoadBalancer":
        ingress = parts(service, "status.loadBalancer.ingress")
        places = sorted({text(each, "ip") or text(each, "hostname") for each in ingress})
    places += [str(each) for each in spec.get("externalIPs") or ()]
    return ",".join(places) or ("<pending>" if kind == "LoadBalancer" else _NONE)


_SHOWN_ADDRESSES = 3


def _some(texts: list[str]) -> str:
    """The first three, and how many more there are."""
    if len(texts) <= _SHOWN_ADDRESSES:
        return ",".join(texts)
    return f"{','.join(texts[:_SHOWN_ADDRESSES])} + {len(texts) - _SHOWN_ADDRESSES} more..."


def _endpoints(value: Json, now_ns: int) -> list[object]:
    found = []
    for subset in parts(value, "subsets"):
        hosts = [text(each, "ip") for each in parts(subset, "addresses")]
        ports = [number(each, "port") for each in parts(subset, "ports")]
        found += [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports for host in hosts]
        if not ports:
            found += hosts
    return [_name(value), _some(found) or _NONE, _age(value, now_ns)]


def _endpoint_slice(value: Json, now_ns: int) -> list[object]:
    ports = [str(each.get("port", each.get("name", "*"))) for each in parts(value, "ports")]
    hosts = [str(host) for each in parts(value, "endpoints") for host in each.get("addresses") or ()]
    shown = (_some(ports) or "<unset>", _some(hosts) or "<unset>")
    return [_name(value), text(value, "addressType"), *shown, _age(value, now_ns)]


PLAIN = Printer(("Name", "Age"), _plain)
"""For a resource without columns of its own."""

PRINTERS: Mapping[str, Printer] = {
    "pods": Printer(POD_COLUMNS, pod_cells, _pod_conditions, ShownPod),
    "nodes": Printer(_NODE_COLUMNS, _node),
    "namespaces": Printer(("Name", "Status", "Age"), _namespace),
    "events": Printer(_EVENT_COLUMNS, _event),
    "events.events.k8s.io": Printer(_EVENT_COLUMNS, _event),
    "services": Printer(("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"), _service),
    "endpoints": Printer(("Name", "Endpoints", "Age"), _endpoints),
    "endpointslices.discovery.k8s.io": Printer(("Name", "AddressType", "Ports", "Endpoints", "Age"), _endpoint_slice),
    "poddisruptionbudgets.policy": Printer(_BUDGET_COLUMNS, _budget),
    "runtimeclasses.node.k8s.io": Printer(("Name", "Handler", "Age"), _runtime_class),
    "priorityclasses.scheduling.k8s.io": Printer(_CLASS_COLUMNS, _priority_class),
    "replicasets.apps": Printer(_REPLICA_SET_COLUMNS, _replica_set),
    "replicationcontrollers": Printer(_REPLICA_SET_COLUMNS, _replication_controller),
    "deployments.apps": Printer(("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE_COLUMNS), _deployment),
    "statefulsets.apps": Printer(("Name", "Ready", "Age", "Containers*", "Images*"), _stateful_set),
    "daemonsets.apps": Printer(_DAEMON_COLUMNS, _daemon_set),
    "nodes.metrics.k8s.io": Printer(_USAGE_COLUMNS, _usage),
    "pods.metrics.k8s.io": Printer(_USAGE_COLUMNS, _usage),
    "jobs.batch": Printer(("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE_COLUMNS), _job),
    "scales.autoscaling": Printer(("Name", "Desired:integer", "Available:integer", "Age"), _scale),
    "leases.coordination.k8s.io": Printer(("Name", "Holder", "Age"), _lease),
    "configmaps": Printer(("Name", "Data", "Age"), _config_map),
    "secrets": Printer(("Name", "Type", "Data", "Age"), _secret),
    "controllerrevisions.apps": Printer(("Name", "Controller", "Revision", "Age"), _revision),
}
"""By the qualified name of the resource."""


# Selectors and labels in one cell.
def selector_text(workload: Json) -> str:
    """`app=web,tier in (a,b)`; empty for a selector that is empty or absent."""
    selector = part(workload, "spec.selector")
    labels = {key: value for key, value in part(selector, "matchLabels").items() if isinstance(value, str)}
    expressions = (
        MatchExpression(text(each, "key"), text(each, "operator"), tuple(_texts(each.get("values"))))
        for each in parts(selector, "matchExpressions")
    )
    try:
        return str(select(SelectorObject(labels, tuple(expressions))))
    except InputError:
        return "<invalid>"


def labels_text(labels: Mapping[str, Any]) -> str:
    """`a=1,b=2` in order of the keys."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def _texts(values: object) -> list[str]:
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


def check_include(include_object: str) -> None:
    """400 for any other value."""
    if include_object not in ("", "Metadata", "Object", "None"):
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {quote(include_object)}:"
            " must be 'Metadata', 'Object', 'None', or empty"
        )


def render(
    resource: Resource,
    objects: Iterable[Mapping[str, Any]],
    now_ns: int,
    *,
    metadata: Mapping[str, Any],
    include_object: str = "",
    has_columns: bool = True,
    api_version: str = _GROUP_VERSION,
) -> dict[str, Any]:
    """A table. In a watch only the first one has columns; later events carry rows alone. The rows come last."""
    check_include(include_object)
    columns = _columns(PRINTERS.get(resource.qualified, PLAIN).columns) if has_columns else None
    if columns is not None and resource.qualified == _SCALES:
        # Only here the first column does not say that it holds names.
        columns = [{**each, "format": ""} for each in columns]
    head = {"kind": TABLE, "apiVersion": api_version, "metadata": dict(metadata)}
    sources = [row_source(resource, each, include_object, api_version) for each in objects]
    return {**head, "columnDefinitions": columns, "rows": rows(resource, sources, now_ns)}


def rows(resource: Resource, sources: Iterable[RowSource], now_ns: int) -> list[dict[str, Any]]:
    """Some rows of a table."""
    printer = PRINTERS.get(resource.qualified, PLAIN)
    return [
        {"cells": printer.cells(value, now_ns), **printer.conditions(value), "object": shown}
        for value, shown in sources
    ]


def row_source(resource: Resource, value: Json, include_object: str, api_version: str) -> RowSource:
    """Of an object, for an `includeObject` that has been checked."""
    if include_object == "None":
        return value, None
    if include_object == "Object":
        return value, {"kind": resource.kind, "apiVersion": resource.api_version, **value}
    return value, metadata_of(value, api_version, resource.inner_annotation)


@cache
def row_decoder(resource: Resource, include_object: str, api_version: str) -> Callable[[bytes], RowSource] | None:
    """The same of an object's bytes, of which only what the row asks for is decoded; None where that is most of it."""
    shape = PRINTERS.get(resource.qualified, PLAIN).shape
    if shape is None or include_object == "Object":
        return None
    decode_shape: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(shape).decode
    start = _encode(metadata_of({"metadata": {}}, api_version)).removesuffix(b"{}}")

    def decode(body: bytes) -> RowSource:
        try:
            value = decode_shape(body)
        except msgspec.ValidationError:
            # A status may hold anything.
            return row_source(resource, _decode(body), include_object, api_version)
        metadata = value["metadata"]
        value["metadata"] = _decode_metadata(metadata)
        # As it is: the owners of its fields are most of it.
        return value, None if include_object == "None" else msgspec.Raw(b"%s%s}" % (start, metadata))

    return decode


@cache
def _columns(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    return [_column(each) for each in texts]


def _column(text: str) -> dict[str, Any]:
    name, _, kind = text.removesuffix("*").partition(":")
    return {
        "name": name,
        "type": kind or "string",
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": int(text.endswith("*")),
    }
