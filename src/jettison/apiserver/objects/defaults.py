"""Default values of pods and workloads, filled in when an object is read, so that every reader sees them.

These functions write into the object they get; `schema` made it a moment before, and nothing else refers to it.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]


def default_pod(pod: Json) -> None:
    """A pod's spec. Some defaults are for pods only: those of a template's pods are filled in pod by pod."""
    spec = pod["spec"]
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            _default_requests(container["resources"])


def default_pod_spec(spec: Json) -> None:
    """Of a pod or of a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            _default_container(container, is_on_host=spec.get("hostNetwork", False))


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for key in ("configMap", "secret", "downwardAPI", "projected"):
        if key in volume:
            volume[key].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def _default_container(container: Json, *, is_on_host: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", "Always" if _is_moving(container.get("image", "")) else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if is_on_host:
            port.setdefault("hostPort", port["containerPort"])
    for each in container.get("env") or ():
        if "fieldRef" in (source := each.get("valueFrom") or {}):
            source["fieldRef"].setdefault("apiVersion", "v1")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            _default_probe(container[key])


def _default_requests(resources: Json) -> None:
    """Where only a limit is given, the request is the same."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits.keys() - requests.keys():
        resources["requests"] = {**limits, **requests}


def _is_moving(image: str) -> bool:
    """Whether the same reference may be another image tomorrow: no tag, or `latest`."""
    if "@" in image:
        return False
    name = image.rpartition("/")[2]
    return ":" not in name or name.endswith(":latest")


def _default_probe(probe: Json) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


# Workloads.
_QUARTER: Final = "25%"
_INT32_MAX: Final = 2**31 - 1


def default_replica_set(value: Json) -> None:
    """One pod."""
    spec = value["spec"]
    spec.setdefault("replicas", 1)
    default_pod_spec(spec["template"]["spec"])


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
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    default_pod_spec(spec["template"]["spec"])


def default_daemon_set(value: Json) -> None:
    """Replaced one by one."""
    spec = value["spec"]
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    default_pod_spec(spec["template"]["spec"])


def default_job(value: Json) -> None:
    """One pod, tried seven times. With rules for failures a pod is replaced only when it is known how it ended."""
    spec = value["spec"]
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
