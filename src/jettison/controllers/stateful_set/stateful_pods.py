"""The pods of a StatefulSet as documents: each has the name, the labels and the host name of its ordinal."""

from __future__ import annotations

import re
from typing import Final

from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.owned_pods import OwnerKind
from jettison.controllers.machinery.pod_control import delete_pod, is_namespace_ending, pod_from_template
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.machinery.revisions import REVISION_LABEL
from jettison.errors import ApiError, Conflict, NotFound, RuntimeFailure
from jettison.runtimes.kube.cache import key_of
from jettison.runtimes.kube.client import Document, PatchType
from jettison.runtimes.kube.kinds import PODS, STATEFUL_SETS

SOURCE: Final = "statefulset-controller"
OWNER_KIND: Final = OwnerKind(STATEFUL_SETS, "StatefulSet")
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

_NAME: Final = re.compile(r"(.*)-(0|[1-9][0-9]{0,9})")


def ordinal_of(pod: Document, stateful_set: Document) -> int | None:
    """Its place in the set; None where its name is none of the set's."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    return int(found[2]) if found and found[1] == stateful_set["metadata"]["name"] else None


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    """By which a Service finds this very pod."""
    return {NAME_LABEL: name, INDEX_LABEL: str(ordinal)}


def stateful_pod(stateful_set: Document, ordinal: int, template: Document, revision: str) -> Document:
    """The pod of an ordinal, from the template of that revision."""
    spec = stateful_set["spec"]
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_from_template(OWNER_KIND, stateful_set, template)
    labels = {**(pod["metadata"].get("labels") or {}), **identity_labels(name, ordinal), REVISION_LABEL: revision}
    pod["metadata"] |= {"name": name, "labels": labels}
    pod["spec"] = {**pod["spec"], "hostname": name}
    if service := spec.get("serviceName"):
        pod["spec"]["subdomain"] = service
    return pod


class StatefulPods:
    """Makes and deletes them, and tells of it in the words that StatefulSets have for it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def create(self, stateful_set: Document, pod: Document) -> Document:
        """The pod as it was made. Raises what the server said, after having told it."""
        try:
            made = await self._around.client.create(PODS, pod, key_of(stateful_set)[0])
        except (ApiError, RuntimeFailure) as error:
            if not is_namespace_ending(error):
                self.tell_failure(stateful_set, "Create", pod["metadata"]["name"], error)
            raise
        self._tell_success(stateful_set, "Create", pod["metadata"]["name"])
        return made

    async def delete(self, stateful_set: Document, pod: Document) -> bool:
        """Whether there was something to delete."""
        name = pod["metadata"]["name"]
        try:
            is_asked = await delete_pod(self._around.client, pod)
        except (ApiError, RuntimeFailure) as error:
            self.tell_failure(stateful_set, "Delete", name, error)
            raise
        if is_asked:
            self._tell_success(stateful_set, "Delete", name)
        return is_asked

    async def identify(self, pod: Document, ordinal: int) -> None:
        """Give an adopted pod the labels of its place, where it lacks them."""
        namespace, name = key_of(pod)
        labels = identity_labels(name, ordinal)
        if labels.items() <= (pod["metadata"].get("labels") or {}).items():
            return
        patch = {"metadata": {"uid": pod["metadata"]["uid"], "labels": labels}}
        try:
            await self._around.client.patch(PODS, name, patch, namespace, how=PatchType.MERGE)
        except (NotFound, Conflict):
            return

    def tell_failure(self, stateful_set: Document, verb: str, pod: str, error: object) -> None:
        """What stands against it, as an event of the set."""
        owner = stateful_set["metadata"]["name"]
        message = f"{verb} Pod {pod} in StatefulSet {owner} failed error: {error}"
        self._tell(stateful_set, f"Failed{verb}", message, WARNING)

    def tell_back_off(self, stateful_set: Document, message: str) -> None:
        """Its pods fail as soon as they are made."""
        self._tell(stateful_set, "BackOff", message, WARNING)

    def _tell_success(self, stateful_set: Document, verb: str, pod: str) -> None:
        owner = stateful_set["metadata"]["name"]
        self._tell(stateful_set, f"Successful{verb}", f"{verb} Pod {pod} in StatefulSet {owner} successful", NORMAL)

    def _tell(self, stateful_set: Document, reason: str, message: str, event_type: str) -> None:
        self._around.events.tell(SOURCE, subject_of("StatefulSet", stateful_set), reason, message, event_type)
