"""Why a pod waits instead of running, in the words that kubectl shows.

A node that answers Failed at once for a pod that it cannot run makes a storm: a ReplicaSet replaces the pod at once,
and the next one fails as fast (413 pods in 11 s were measured with Kubernetes' own controller). A kubelet that cannot
pull an image or mount a volume keeps the pod Pending, says why, and tries again with back-off. So does this node, for
everything that a document asks for and a bare host does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

from jettison.errors import ManifestError
from jettison.runtimes.host.pods.phases import Seen
from jettison.runtimes.host.pods.records import ContainerRecord
from jettison.runtimes.host.specs.spec import ContainerSpec, ImageNeededError, PodSpec, pod_spec
from jettison.runtimes.host.specs.volumes import VolumeNeededError
from jettison.runtimes.protocol import PodManifest

FAILED, FAILED_MOUNT, NO_CGROUP = "Failed", "FailedMount", "FailedCreatePodContainer"
"""The kubelet's reasons of the events."""

_CREATING = "ContainerCreating"
_MISCONFIGURED = "CreateContainerConfigError"
_PULLING = "ImagePullBackOff"

_LONGEST_DEADLINE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Trouble:
    """`reason` and `message` are of the containers that wait, `event` and `told` of the event that says so."""

    reason: str
    message: str
    event: str
    told: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that a bare host cannot run. Its containers are known by their names alone, for the status."""

    trouble: Trouble
    inits: tuple[Seen, ...] = ()
    regulars: tuple[Seen, ...] = ()
    deadline_seconds: int | None = None


def not_set_up(event: str, why: str) -> Trouble:
    """The host has it in principle, and could not provide it now."""
    return Trouble(_CREATING, why, event, why)


def read_spec(manifest: PodManifest) -> PodSpec | Refusal:
    """What to run, or why it cannot be run here."""
    try:
        return pod_spec(manifest.document, str(manifest.pod))
    except ManifestError as error:
        return refusal_of(error, manifest)


def refusal_of(error: ManifestError, manifest: PodManifest) -> Refusal:
    """With a stand-in for each container that the document names."""
    pod = manifest.pod
    inits = tuple(_stand_in(each.name, is_init=True) for each in pod.init_containers)
    regulars = tuple(_stand_in(each.name, is_init=False) for each in pod.containers)
    spec = manifest.document.get("spec")
    deadline = spec.get("activeDeadlineSeconds") if isinstance(spec, dict) else None
    is_deadline = isinstance(deadline, int) and 0 < deadline <= _LONGEST_DEADLINE
    return Refusal(_trouble(error, str(pod)), inits, regulars, deadline if is_deadline else None)


def _trouble(error: ManifestError, pod: str) -> Trouble:
    why = str(error).removeprefix(f"{pod}: ")
    if isinstance(error, ImageNeededError):
        image = error.image
        message = f'Back-off pulling image "{image}": ErrImagePull: {why}'
        return Trouble(_PULLING, message, FAILED, f'Failed to pull image "{image}": {why}')
    if isinstance(error, VolumeNeededError):
        return Trouble(_MISCONFIGURED, why, FAILED_MOUNT, f"MountVolume.SetUp failed: {why}")
    return Trouble(_MISCONFIGURED, why, FAILED, f"Error: {why}")


def _stand_in(name: str, *, is_init: bool) -> Seen:
    return Seen(ContainerSpec(name, (), is_init=is_init), ContainerRecord(name))
