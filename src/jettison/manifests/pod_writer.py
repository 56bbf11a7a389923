"""`engine.pods.Pod` to a v1 Pod that reads back as an equal pod.

The document says what eviction knows of the pod and no more: a hostPath volume is written as an emptyDir, because all
that counts of either is that it lies on the node's disks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jettison.engine.pods.pod import Container, Pod, Resources, Volume
from jettison.engine.scheduling.taints import Toleration
from jettison.manifests.pods import CONFIG_MIRROR, CONFIG_SOURCE
from jettison.manifests.quantities import exact_text

Document = dict[str, Any]


def pod_document(pod: Pod) -> Document:
    """What is empty is left out."""
    annotations = {}
    if pod.is_static:
        annotations[CONFIG_SOURCE] = "file"
    if pod.is_mirror:
        annotations[CONFIG_MIRROR] = pod.static_uid
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace or None,
        "uid": pod.uid or None,
        "generation": pod.generation or None,
        "annotations": annotations or None,
    }
    status = {"qosClass": pod.reported_qos or None, "phase": pod.phase or None}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": present(metadata), "spec": _spec(pod)}
    return {**document, "status": present(status)} if any(status.values()) else document


def _spec(pod: Pod) -> Document:
    resources = pod.resources
    return present(
        {
            "containers": [_container(each) for each in pod.containers],
            "initContainers": [_container(each) for each in pod.init_containers] or None,
            "overhead": _texts(pod.overhead),
            "resources": None if resources is None else _resources(resources.requests, resources.limits),
            "volumes": [_volume(each) for each in pod.volumes] or None,
            "tolerations": _tolerations(pod.tolerations) or None,
            "priority": pod.priority,
            "priorityClassName": pod.priority_class or None,
            "terminationGracePeriodSeconds": pod.grace_seconds,
            "nodeName": pod.node_name or None,
        }
    )


def _container(container: Container) -> Document:
    resources = _resources(container.requests, container.limits) or None
    restarts = "Always" if container.is_sidecar else None
    return present({"name": container.name, "resources": resources, "restartPolicy": restarts})


def _resources(requests: Resources, limits: Resources) -> Document:
    return present({"requests": _texts(requests), "limits": _texts(limits)})


def _texts(resources: Resources) -> dict[str, str] | None:
    return {name: exact_text(amount) for name, amount in resources.items()} or None


def _volume(volume: Volume) -> Document:
    if volume.size_limit is None:
        return {"name": volume.name, "emptyDir": {}} if volume.is_local else {"name": volume.name}
    empty_dir = {"sizeLimit": exact_text(volume.size_limit)}
    return {"name": volume.name, "emptyDir": empty_dir if volume.is_local else {"medium": "Memory", **empty_dir}}


def _tolerations(tolerations: Iterable[Toleration]) -> list[Document]:
    return [
        present(
            {
                "key": each.key or None,
                "operator": each.operator or None,
                "value": each.value or None,
                "effect": each.effect or None,
                "tolerationSeconds": each.seconds,
            }
        )
        for each in tolerations
    ]


def present(document: Document) -> Document:
    """Without what is None: in Kubernetes' documents absent and null are the same, and absent is shorter."""
    return {key: value for key, value in document.items() if value is not None}
