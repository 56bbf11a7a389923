"""The pods of a Job as documents, and the finalizer that says they were not counted yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from jettison.controllers.machinery.owned_pods import OwnerKind
from jettison.controllers.machinery.pod_control import NewPod
from jettison.errors import ApiError, NotFound, RuntimeFailure
from jettison.manifests.pod_view import INDEX_ANNOTATION, TRACKING_FINALIZER
from jettison.runtimes.kube.cache import Cache, Change, key_of
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import JOBS, PODS

SOURCE: Final = "job-controller"
OWNER_KIND: Final = OwnerKind(JOBS, "Job")

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58


def job_pod(job: Document, index: int | None) -> NewPod:
    """From the template; with an index, it knows it by label, annotation, host name and environment."""
    template = job["spec"]["template"]
    metadata: dict[str, Any] = {**(template.get("metadata") or {})}
    others = [each for each in metadata.get("finalizers") or () if each != TRACKING_FINALIZER]
    metadata["finalizers"] = [*others, TRACKING_FINALIZER]
    if index is None:
        return NewPod({**template, "metadata": metadata})
    for key in ("annotations", "labels"):
        metadata[key] = {**(metadata.get(key) or {}), INDEX_ANNOTATION: str(index)}
    name = job["metadata"]["name"]
    spec = {**(template.get("spec") or {}), "hostname": f"{name}-{index}"}
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = list(map(_knowing_its_index, spec[key]))
    end = f"-{index}-"
    return NewPod({**template, "metadata": metadata, "spec": spec}, name[: _LONGEST_PREFIX - len(end)] + end)


def _knowing_its_index(container: Document) -> Document:
    variables = container.get("env") or []
    if any(each.get("name") == _INDEX_VARIABLE for each in variables):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_ANNOTATION}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]}


class Released(NamedTuple):
    """The uids of those that no longer have the finalizer, gone or not, and what the server said against another."""

    uids: set[str]
    error: BaseException | None


class Tracking:
    """Removes finalizers, and remembers from which pods until the cache shows it: a pod must not be counted twice."""

    def __init__(self, client: KubeClient, pods: Cache) -> None:
        self._client = client
        self._released: set[str] = set()
        pods.listen(self._watch)

    def is_released(self, pod: Document) -> bool:
        """Whether it has been counted, although the cache may still show its finalizer."""
        return pod["metadata"]["uid"] in self._released or not is_tracked(pod)

    async def release(self, pods: Iterable[Document]) -> Released:
        """All at once."""
        chosen = list(pods)
        results = await asyncio.gather(*map(self._release, chosen), return_exceptions=True)
        done = {pod["metadata"]["uid"] for pod, result in zip(chosen, results, strict=True) if result is None}
        return Released(done, next((each for each in results if each is not None), None))

    async def _release(self, pod: Document) -> None:
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        if not is_tracked(pod) or uid in self._released:
            return
        patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
        self._released.add(uid)
        try:
            await self._client.patch(PODS, name, patch, namespace)
        except NotFound:
            return
        except (ApiError, RuntimeFailure):
            # Refused may mean that the name is another pod's by now: servers differ in how they say that.
            if not await self._is_gone(pod):
                self._released.discard(uid)
                raise

    async def _is_gone(self, pod: Document) -> bool:
        namespace, name = key_of(pod)
        try:
            found = await self._client.get(PODS, name, namespace)
        except NotFound:
            return True
        except (ApiError, RuntimeFailure):
            return False
        return bool(found["metadata"]["uid"] != pod["metadata"]["uid"])

    def _watch(self, change: Change) -> None:
        if change.new is None or not is_tracked(change.new):
            self._released.discard(change.newest["metadata"]["uid"])


def is_tracked(pod: Document) -> bool:
    """Whether it waits to be counted."""
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())
