"""Why a pod waits instead of running, in the words that kubectl shows.

A node that answers Failed at once for a pod that it cannot run makes a storm: a ReplicaSet replaces the pod at once,
and the next one fails as fast (413 pods in 11 s were measured with Kubernetes' own controller). A kubelet that cannot
pull an image or mount a volume keeps the pod Pending, says why, and tries again with back-off. So does this node, for
everything that a document asks for and a bare host does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

from jettison.engine.lifecycle.state import Trouble
from jettison.errors import ManifestError
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
class Refusal:
    """A document that a bare host cannot run. Of its containers `spec` has the names alone, for the status."""

    trouble: Trouble
    spec: PodSpec


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
    inits = tuple(ContainerSpec(each.name, (), is_init=True) for each in pod.init_containers)
    regulars = tuple(ContainerSpec(each.name, ()) for each in pod.containers)
    spec = manifest.document.get("spec")
    deadline = spec.get("activeDeadlineSeconds") if isinstance(spec, dict) else None
    is_deadline = isinstance(deadline, int) and 0 < deadline <= _LONGEST_DEADLINE
    known = PodSpec(regulars, inits, deadline_seconds=deadline if is_deadline else None)
    return Refusal(_trouble(error, str(pod)), known)


def _trouble(error: ManifestError, pod: str) -> Trouble:
    why = str(error).removeprefix(f"{pod}: ")
    if isinstance(error, ImageNeededError):
        image = error.image
        message = f'Back-off pulling image "{image}": ErrImagePull: {why}'
        return Trouble(_PULLING, message, FAILED, f'Failed to pull image "{image}": {why}', is_refusal=True)
    if isinstance(error, VolumeNeededError):
        return Trouble(_MISCONFIGURED, why, FAILED_MOUNT, f"MountVolume.SetUp failed: {why}", is_refusal=True)
    return Trouble(_MISCONFIGURED, why, FAILED, f"Error: {why}", is_refusal=True)
