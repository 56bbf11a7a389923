"""Workloads."""

from __future__ import annotations

from typing import Any, Final

from jettison.apiserver.objects.defaults.pods import default_pod_spec

Json = dict[str, Any]

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
