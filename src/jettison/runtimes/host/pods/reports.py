"""A pod as others want to see it: its status for the API and the operator, its parts for the observer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jettison.engine.node import wording
from jettison.engine.node.evictions import Eviction
from jettison.runtimes.host.measure.active import ActiveContainer, ActivePod, ActiveVolume
from jettison.runtimes.host.pods import phases, runs
from jettison.runtimes.host.pods.containers import Container
from jettison.runtimes.host.pods.phases import Seen
from jettison.runtimes.host.pods.records import PodRecord, Verdict
from jettison.runtimes.host.specs.refusals import Trouble
from jettison.runtimes.host.specs.spec import PodSpec
from jettison.runtimes.host.volumes.pod_directories import PodHome
from jettison.runtimes.protocol import PodManifest, PodStatus


def seen(containers: Iterable[Container]) -> list[Seen]:
    """From outside."""
    return [Seen(each.spec, each.record, is_ready=each.is_ready, has_life=each.is_active) for each in containers]


def pod_status(
    manifest: PodManifest,
    spec: PodSpec,
    record: PodRecord,
    inits: Sequence[Seen],
    regulars: Sequence[Seen],
    trouble: Trouble | None = None,
) -> PodStatus:
    """As Kubernetes would tell it. While a pod is on its way out it keeps the phase it had."""
    pod = manifest.pod
    verdict = record.verdict
    if verdict is None:
        initialized = record.is_initialized or (bool(regulars) and not inits)
        phase = phases.phase(regulars, was_initialized=initialized)
        verdict = Verdict(phase, conditions=phases.conditions(pod, phase, inits, regulars, was_initialized=initialized))
    goes_on = record.ending is None and record.verdict is None
    statuses = tuple(
        phases.container_status(
            pod,
            each,
            will_restart=goes_on and runs.is_to_restart(each.spec, each.record, spec.restart_policy),
            is_initializing=bool(inits) and not record.is_initialized and not each.spec.is_init,
            reason="" if trouble is None else trouble.reason,
            trouble="" if trouble is None else trouble.message,
        )
        for each in (*inits, *regulars)
    )
    return PodStatus(
        pod,
        verdict.phase,
        verdict.reason,
        verdict.message,
        verdict.conditions,
        statuses,
        record.started_ns,
        is_ending=record.ending is not None and not record.is_cleaned,
        document=manifest.document,
    )


def final_verdict(
    manifest: PodManifest, record: PodRecord, order: Eviction | None, inits: Sequence[Seen], regulars: Sequence[Seen]
) -> Verdict:
    """Of a pod none of whose containers runs any more.

    An eviction has failed it, and so has its deadline, however well it took that. Of the two it is the eviction's.
    """
    pod, initialized = manifest.pod, record.is_initialized
    is_overdue = record.ending is not None and record.ending.is_overdue
    phase = phases.FAILED if order is not None or is_overdue else phases.final_phase(inits, regulars)
    conditions = phases.conditions(pod, phase, inits, regulars, was_initialized=initialized)
    if order is not None:
        return Verdict(phase, order.reason, order.message, tuple(order.conditions_after(conditions)))
    if is_overdue:
        return Verdict(phase, wording.DEADLINE_EXCEEDED, wording.DEADLINE_MESSAGE, conditions)
    return Verdict(phase, conditions=conditions)


def active_pod(manifest: PodManifest, home: PodHome, containers: Iterable[Container]) -> ActivePod:
    """What there is to be measured."""
    parts = [
        ActiveContainer(
            each.spec.name, each.place, each.pid, str(each.writable_dir), str(each.log_dir), is_running=each.is_active
        )
        for each in containers
    ]
    mounted = [ActiveVolume(each.name, str(each.path), each.is_memory) for each in home.volumes if not each.is_host]
    return ActivePod(manifest, parts, mounted, str(home.pod_dir))
