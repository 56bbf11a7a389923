"""Pods, and templates for pods."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def default_pod(pod: Json) -> None:
    """A pod's spec. What only a pod has filled in, a template is left without: its pods get it one by one."""
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
    """Who names only a ceiling gets it reserved."""
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
