"""What the server itself writes into an object of a kind: its first status, and what a client may not set or change.

These functions write into the object they get, after the defaults and before the validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from jettison.apiserver.objects.defaults import default_daemon_set, default_namespace, merge_label_keys
from jettison.apiserver.objects.schema import empty_struct
from jettison.manifests.pods import pod_from

Json = dict[str, Any]

TEMPLATE_NUMBER: Final = "deprecated.daemonset.template.generation"

_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_ELECTION_FIELDS: Final = ("strategy", "preferredHolder")


# What only a feature needs that is off by default. Kubernetes drops it; the client that sends it owns it all the same.
def drop_from_pod(pod: Json) -> None:
    """Of a pod."""
    status = pod["status"]
    status.pop("nodeAllocatableResourceClaimStatuses", None)
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(key) or ():
            for mount in container.get("volumeMounts") or ():
                mount.pop("volumeStatus", None)
    _drop_from_spec(pod["spec"])


def drop_from_template(value: Json) -> None:
    """Of a workload."""
    if template := value["spec"].get("template"):
        _drop_from_spec(template["spec"])


def _drop_from_spec(spec: Json) -> None:
    spec.pop("schedulingGroup", None)
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            source.pop("clusterTrustBundle", None)
            source.pop("podCertificate", None)
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            if "stopSignal" in (hooks := container.get("lifecycle") or {}):
                del hooks["stopSignal"]
                if not hooks:
                    del container["lifecycle"]


def prepare_pod(pod: Json) -> None:
    """A new one waits; what its affinities and spreading ask of its own labels is written into them."""
    # A class that the client names is believed.
    pod["status"] = {"phase": "Pending", "qosClass": pod["status"].get("qosClass") or str(pod_from(pod).qos)}
    if pod["spec"].get("schedulingGates"):
        gated = {"type": "PodScheduled", "status": "False", "lastProbeTime": None}
        gated["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
        gated |= {"reason": "SchedulingGated", "message": _GATED}
        pod["status"]["conditions"] = [gated]
    merge_label_keys(pod["spec"], pod["metadata"].get("labels") or {})


def complete_pod_status(status: Json, old: Json) -> None:
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


def prepare_namespace(namespace: Json) -> None:
    """A new one is active, and is emptied before it goes."""
    # Its name may have been made just now.
    default_namespace(namespace)
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].get("finalizers") or []
    namespace["spec"] = {**namespace["spec"], "finalizers": [*finalizers, *({"kubernetes"} - set(finalizers))]}


def keep_namespace_spec(namespace: Json, old: Json) -> None:
    """Its finalizers are written apart."""
    namespace["spec"] = old["spec"]


def prepare_job(job: Json) -> None:
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


def drop_lease_fields(lease: Json) -> None:
    """Of a new one: what an election by Kubernetes itself would need."""
    for key in _ELECTION_FIELDS:
        lease["spec"].pop(key, None)


def keep_lease_fields(lease: Json, old: Json) -> None:
    """Kubernetes elects no leaders by itself, and keeps these only where an object has them already."""
    for key in _ELECTION_FIELDS:
        if key not in old["spec"]:
            lease["spec"].pop(key, None)


def drop_node_source(node: Json, old: Json | None = None) -> None:
    """A configuration of the kubelet that came from the API, which no kubelet reads any more."""
    if old is None or "configSource" not in old["spec"]:
        node["spec"].pop("configSource", None)
    if old is None:
        node["status"].pop("config", None)


def complete_node_status(status: Json, old: Json) -> None:
    """The same of what the kubelet made of it."""
    if "config" not in old:
        status.pop("config", None)


def prepare_stateful_set(value: Json) -> None:
    """A new one."""
    value["status"] = empty_struct("StatefulSetStatus")
    keep_unavailable(value, {"spec": {}})


def keep_unavailable(value: Json, old: Json) -> None:
    """Kubernetes replaces one pod at a time by default, and keeps another number only where there is one already."""
    rolling, former = (((each["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}) for each in (value, old))
    if "maxUnavailable" not in former:
        rolling.pop("maxUnavailable", None)


def default_numbered_set(value: Json) -> None:
    """The annotation is a field inside Kubernetes, and a field is there from the beginning."""
    default_daemon_set(value)
    _number_template(value, template_number(value))


def prepare_daemon_set(value: Json) -> None:
    """A new one has the first of its templates."""
    value["status"] = empty_struct("DaemonSetStatus")
    _number_template(value, max(template_number(value), 1))


def renumber_template(value: Json, old: Json) -> None:
    """Of a changed DaemonSet."""
    has_changed = value["spec"]["template"] != old["spec"]["template"]
    _number_template(value, template_number(old) + has_changed)


def template_number(value: Json) -> int:
    """How often the template of a DaemonSet has changed; 0 where the annotation is no number."""
    text = (value["metadata"].get("annotations") or {}).get(TEMPLATE_NUMBER, "")
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else 0


def _number_template(value: Json, number: int) -> None:
    """Written where old clients look for it."""
    annotations = value["metadata"].get("annotations") or {}
    value["metadata"]["annotations"] = {**annotations, TEMPLATE_NUMBER: str(number)}


def prepare_slice(value: Json) -> None:
    """Without a field of the old version, which this one does not write; a list without elements is null."""
    for key in ("endpoints", "ports"):
        value[key] = value.get(key) or None
    for each in value["endpoints"] or ():
        each.pop("deprecatedTopology", None)


def change_slice(value: Json, old: Json) -> None:
    """A changed one, unless its endpoints stay."""
    if value.get("endpoints") != old.get("endpoints") or not value.get("ports"):
        prepare_slice(value)


def fresh_status(struct: str) -> Callable[[Json], None]:
    """What gives a new object an empty status."""

    def prepare(value: Json) -> None:
        value["status"] = empty_struct(struct)

    return prepare
