"""Default values of each kind, filled in when an object is read, so that every reader sees them.

These functions write into the object they get; `schema` made it a moment before, and nothing else refers to it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from jettison.engine.numbers.quantity import parse, rounded_up
from jettison.engine.pods.pod import HUGEPAGES_PREFIX, aggregate, is_pod_level_resource
from jettison.manifests.pods import pod_from

Json = dict[str, Any]


def default_pod(pod: Json) -> None:
    """A pod. Some defaults are for pods only: those of a template's pods are filled in pod by pod."""
    spec = pod["spec"]
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            _default_requests(container["resources"])
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    port.setdefault("hostPort", port["containerPort"])
    if spec.get("resources"):
        _default_whole(spec)
    _join_addresses(pod["status"])
    _round_status(pod["status"])


def default_pod_spec(spec: Json) -> None:
    """Of a pod or of a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    # The old name of the field is always shown beside the new one.
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            _default_container(container)
    for resources in (spec.get("resources") or {}, {"overhead": spec.get("overhead")}):
        round_amounts(resources)


def _round_status(status: Json) -> None:
    """What the pod, and each of its containers, has got."""
    holders = [status]
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        holders += status.get(key) or ()
    for each in holders:
        if "allocatedResources" in each:
            round_amounts(each, ("allocatedResources",))
        if "resources" in each:
            round_amounts(each["resources"])


def _join_addresses(status: Json) -> None:
    """The first address is shown twice; where the two differ, the older field counts."""
    first, several = status.get("podIP", ""), status.get("podIPs") or []
    if first and (not several or several[0]["ip"] != first):
        status["podIPs"] = [{"ip": first}]
    elif several:
        status["podIP"] = several[0]["ip"]


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for key, (names, values) in _SOURCES.items():
        source = volume.get(key)
        if source is not None:
            for name, value in zip(names, values, strict=True):
                source.setdefault(name, value)
    if "image" in volume:
        _default_pulling(volume["image"], "pullPolicy", volume["image"].get("reference", ""))
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_field_reference(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_field_reference(item)
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template["spec"].setdefault("volumeMode", "Filesystem")


# The defaults of each kind of source: names and values.
_SOURCES: Final[dict[str, tuple[tuple[str, ...], tuple[Any, ...]]]] = {
    "configMap": (("defaultMode",), (0o644,)),
    "secret": (("defaultMode",), (0o644,)),
    "downwardAPI": (("defaultMode",), (0o644,)),
    "projected": (("defaultMode",), (0o644,)),
    "hostPath": (("type",), ("",)),
    "azureDisk": (("cachingMode", "kind", "fsType", "readOnly"), ("ReadWrite", "Shared", "ext4", False)),
    "iscsi": (("iscsiInterface",), ("default",)),
    "rbd": (("pool", "user", "keyring"), ("rbd", "admin", "/etc/ceph/keyring")),
    "scaleIO": (("storageMode", "fsType"), ("ThinProvisioned", "xfs")),
}


def _default_field_reference(holder: Json) -> None:
    if "fieldRef" in holder:
        holder["fieldRef"].setdefault("apiVersion", "v1")


def _default_container(container: Json) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    _default_pulling(container, "imagePullPolicy", container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for each in container.get("env") or ():
        _default_field_reference(each.get("valueFrom") or {})
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            _default_probe(container[key])
    hooks = container.get("lifecycle") or {}
    for key in ("postStart", "preStop"):
        _default_http(hooks.get(key) or {})
    round_amounts(container["resources"])


def round_amounts(resources: Json, keys: tuple[str, ...] = ("limits", "requests", "overhead")) -> None:
    """Nothing is finer than a thousandth."""
    for key in keys:
        for name, amount in (resources.get(key) or {}).items():
            # Only a small unit or a long fraction can be finer, and most amounts have neither.
            if amount[-1] in "nu" or "." in amount or "e-" in amount.lower():
                resources[key] = {**resources[key], name: str(rounded_up(parse(amount), -3))}


def _default_requests(resources: Json) -> None:
    """Where only a limit is given, the request is the same."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits.keys() - requests.keys():
        resources["requests"] = {**limits, **requests}


def _default_whole(spec: Json) -> None:
    """What a pod asks for as a whole, where it says a part of that: the rest follows from its containers."""
    whole = spec["resources"]
    limits, requests = dict(whole.get("limits") or {}), dict(whole.get("requests") or {})
    if not limits and not requests:
        return
    pod = pod_from({"metadata": {"name": "pod"}, "spec": spec})
    for name, amount in aggregate(pod, lambda container: container.limits).items():
        if name.startswith(HUGEPAGES_PREFIX) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        whole["limits"] = limits
        for name, amount in aggregate(pod, lambda container: container.requests).items():
            if is_pod_level_resource(name) and not name.startswith(HUGEPAGES_PREFIX):
                requests.setdefault(name, str(amount))
        requests |= {
            name: cap for name, cap in limits.items() if name not in requests and is_pod_level_resource(name)
        }  # fmt: skip
    if requests:
        whole["requests"] = requests


def merge_label_keys(spec: Json, labels: dict[str, str]) -> None:
    """Turn `matchLabelKeys` and their like of a new pod into expressions of its selectors, with its own values."""
    affinity = spec.get("affinity") or {}
    for key in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(key) or {}
        terms = list(pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += (each["podAffinityTerm"] for each in preferred)
        for term in terms:
            _merge_keys(term, "matchLabelKeys", "In", labels)
            _merge_keys(term, "mismatchLabelKeys", "NotIn", labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, "matchLabelKeys", "In", labels)


def _merge_keys(term: Json, key: str, operator: str, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for name in term.get(key) or ():
        if name in labels:
            expression = {"key": name, "operator": operator, "values": [labels[name]]}
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), expression]


# The grammar of references to images. What does not follow it is left to the node to refuse.
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST: Final = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[A-Fa-f0-9:]+\])"
)
_REFERENCE: Final = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST_REFERENCE: Final = 1024


def _default_pulling(holder: Json, key: str, image: str) -> None:
    if not holder.get(key):
        holder[key] = "Always" if _is_moving(image) else "IfNotPresent"


def _is_moving(image: str) -> bool:
    """Whether the same reference may be another image tomorrow: no tag, or `latest`. A wrong reference is not."""
    if len(image) > _LONGEST_REFERENCE or _IDENTIFIER.fullmatch(image):
        return False
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return False
    return found["tag"] == "latest" or not (found["tag"] or found["digest"])


def _default_probe(probe: Json) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    _default_http(probe)
    if "grpc" in probe and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http(handler: Json) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


# Workloads.
_QUARTER: Final = "25%"
_INT32_MAX: Final = 2**31 - 1


def default_replica_set(value: Json) -> None:
    """One pod."""
    spec = value["spec"]
    spec.setdefault("replicas", 1)
    default_pod_spec(spec["template"]["spec"])


def default_replication_controller(value: Json) -> None:
    """As above; the labels of the pods are also its own, and what it selects."""
    spec = value["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    if labels := template["metadata"].get("labels"):
        spec["selector"] = spec.get("selector") or dict(labels)
        value["metadata"]["labels"] = value["metadata"].get("labels") or dict(labels)
    default_pod_spec(template["spec"])


def default_deployment(value: Json) -> None:
    """One pod, replaced a quarter at a time."""
    spec = value["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec["strategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", _QUARTER)
        rolling.setdefault("maxSurge", _QUARTER)
    default_pod_spec(spec["template"]["spec"])


def default_stateful_set(value: Json) -> None:
    """One pod, replaced one by one from the last."""
    spec = value["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"].setdefault("phase", "Pending")
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    default_pod_spec(spec["template"]["spec"])


def default_daemon_set(value: Json) -> None:
    """Replaced one by one."""
    spec = value["spec"]
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    is_rolling = strategy["type"] == "RollingUpdate"
    if is_rolling or strategy.get("rollingUpdate") is not None:
        rolling = strategy.setdefault("rollingUpdate", {})
        # Of any other type upstream shows what it keeps in their place.
        rolling.setdefault("maxUnavailable", 1 if is_rolling else 0)
        rolling.setdefault("maxSurge", 0)
    default_pod_spec(spec["template"]["spec"])


def default_job(value: Json) -> None:
    """One pod, tried seven times. With rules for failures a pod is replaced only when it is known how it ended."""
    spec, metadata = value["spec"], value["metadata"]
    if (labels := spec["template"]["metadata"].get("labels")) and not metadata.get("labels"):
        metadata["labels"] = labels
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _INT32_MAX if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    default_pod_spec(spec["template"]["spec"])


# Services.
_AFFINITY_SECONDS: Final = 10_800
_FORMER_KEY: Final = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def default_service(service: Json) -> None:
    """A port of the pods is that of the service. No address is given: nothing would answer there."""
    spec = service["spec"]
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port["port"]
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    is_outside = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if is_outside:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def default_endpoints(endpoints: Json) -> None:
    """The old form."""
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_endpoint_slice(value: Json) -> None:
    """The new form."""
    for port in value.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_node(node: Json) -> None:
    """What pods may have of it is all of it, unless it says otherwise."""
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


def default_namespace(namespace: Json) -> None:
    """Selectors find it by its name."""
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    namespace["status"] = {**(namespace.get("status") or {}), "phase": namespace["status"].get("phase") or "Active"}


def default_priority_class(value: Json) -> None:
    """Its pods may take the place of others."""
    value.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_budget(budget: Json) -> None:
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
