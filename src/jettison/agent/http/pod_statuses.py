"""Pods with their status as Kubernetes serves them: v1 Pods in a PodList."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from jettison.engine.node.evictions import PodCondition
from jettison.manifests.pod_writer import pod_document, present
from jettison.manifests.times import time_text
from jettison.runtimes.protocol import ContainerEnd, ContainerStatus, PodStatus

Document = dict[str, Any]


def pod_list(statuses: Iterable[PodStatus]) -> Document:
    """What `/pods` of a kubelet answers."""
    items = [_encoded(status) for status in statuses]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


def public_pod_list(statuses: Iterable[PodStatus]) -> Document:
    """The same for users that may not read the manifests.

    A list of what is shown, because no list of what is secret is ever complete: commands, variables, probes and
    annotations may all hold a password, and messages quote them.
    """
    items = [_public(status) for status in statuses]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


_EVICTED = "Evicted"
_CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_PUBLIC_STATUS = ("phase", "reason", "qosClass", "startTime")


def _public(status: PodStatus) -> Document:
    document = pod_document(status.pod)
    full = status_document(status)
    # Of all messages only this one is ours from the first word to the last.
    shown = [key for key in _PUBLIC_STATUS if key in full] + (["message"] if status.reason == _EVICTED else [])
    document["status"] = {key: full[key] for key in shown if key in full}
    for kind in _CONTAINER_STATUSES:
        if kind in full:
            document["status"][kind] = [_without_messages(each) for each in full[kind]]
    conditions = [_without_messages(each) for each in full.get("conditions", ())]
    if conditions:
        document["status"]["conditions"] = conditions
    return document


def _without_messages(part: Document) -> Document:
    """At every depth."""
    return {
        key: _without_messages(value) if isinstance(value, dict) else value
        for key, value in part.items()
        if key != "message"
    }


def _encoded(status: PodStatus) -> msgspec.Raw:
    """A document from YAML may hold what JSON cannot (a null key); then only what we know of the pod is shown."""
    try:
        return msgspec.Raw(msgspec.json.encode(pod_with_status(status)))
    except (TypeError, ValueError, RecursionError):
        bare = replace(status, document=pod_document(status.pod))
        return msgspec.Raw(msgspec.json.encode(pod_with_status(bare)))


def pod_with_status(status: PodStatus) -> Document:
    """The pod's own document, with its current status in place of any status that it had."""
    pod = status.pod
    written = status.document.get("metadata")
    metadata = dict(written) if isinstance(written, Mapping) else {}
    metadata |= {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    return {
        **status.document,
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "status": status_document(status),
    }


def status_document(status: PodStatus) -> Document:
    """What stands under `status`."""
    images = _images(status.document)
    inits, regulars, ephemerals = list[Document](), list[Document](), list[Document]()
    for each in status.containers:
        (inits if each.is_init else ephemerals if each.is_ephemeral else regulars).append(_container(each, images))
    return present(
        {
            "phase": status.phase,
            "reason": status.reason or None,
            "message": status.message or None,
            "qosClass": str(status.pod.qos),
            "startTime": _time(status.started_ns),
            "podIP": next(iter(status.addresses), None),
            "podIPs": [{"ip": each} for each in status.addresses] or None,
            "conditions": [_condition(each) for each in status.conditions] or None,
            **{
                key: found or None
                for key, found in zip(_CONTAINER_STATUSES, (inits, regulars, ephemerals), strict=True)
            },
        }
    )


def _condition(condition: PodCondition) -> Document:
    return present(
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason or None,
            "message": condition.message or None,
            "observedGeneration": condition.observed_generation or None,
        }
    )


def _container(status: ContainerStatus, images: Mapping[str, str]) -> Document:
    found = {
        "name": status.name,
        "state": {status.state: _state(status)},
        "lastState": {} if status.last is None else {"terminated": _end(status.last)},
        "ready": status.is_ready,
        # A kubelet does not say it of an ephemeral container.
        "started": None if status.is_ephemeral else status.is_started,
        "restartCount": status.restarts,
        # Required by every client; on a bare host the image plays no part.
        "image": images.get(status.name, ""),
        "imageID": "",
        "containerID": status.container_id or None,
    }
    return present(found)


def _state(status: ContainerStatus) -> Document:
    if status.state == "running":
        return present({"startedAt": _time(status.started_ns)})
    if status.state == "waiting":
        return present({"reason": status.reason or None, "message": status.message or None})
    return _end(status)


def _end(run: ContainerStatus | ContainerEnd) -> Document:
    return present(
        {
            "exitCode": run.exit_code,
            "reason": run.reason or None,
            "message": run.message or None,
            "startedAt": _time(run.started_ns),
            "finishedAt": _time(run.finished_ns),
            "containerID": run.container_id or None,
        }
    )


def _images(document: Mapping[str, Any]) -> dict[str, str]:
    spec = document.get("spec") or {}
    kinds = ("initContainers", "containers", "ephemeralContainers")
    containers = [each for kind in kinds for each in spec.get(kind) or ()]
    return {each.get("name", ""): str(each.get("image") or "") for each in containers}


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else time_text(time_ns)
