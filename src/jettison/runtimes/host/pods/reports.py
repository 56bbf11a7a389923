"""A pod as others want to see it: its status for the API and the operator, its parts for the observer."""

from __future__ import annotations

from jettison.engine.lifecycle import phases
from jettison.engine.lifecycle.state import PodLife
from jettison.runtimes.host.measure.active import ActiveContainer, ActivePod, ActiveVolume
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.protocol import PodManifest, PodStatus


def pod_status(manifest: PodManifest, life: PodLife) -> PodStatus:
    """As Kubernetes would tell it."""
    uid, verdict = life.pod.uid, phases.verdict(life)
    return PodStatus(
        manifest.pod,
        verdict.phase,
        verdict.reason,
        verdict.message,
        verdict.conditions,
        # Another id for each run, as with a container runtime, and the name of its log.
        phases.container_statuses(life, lambda container, run: f"jettison://{uid}/{container}/{run}"),
        life.started_ns,
        is_ending=life.is_ending,
        document=manifest.document,
    )


def active_pod(manifest: PodManifest, directories: PodDirectories, containers: list[ActiveContainer]) -> ActivePod:
    """What there is to be measured."""
    mounted = [
        ActiveVolume(each.name, str(each.path), each.is_memory) for each in directories.volumes if not each.is_host
    ]
    return ActivePod(manifest, containers, mounted, str(directories.pod_dir))
