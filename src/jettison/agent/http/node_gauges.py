"""What the node has left and what its pods use, as gauges: from the newest snapshot, made when they are asked for.

Names are the kubelet's where it has one (`/metrics/resource`). Label values are signals, and names of pods that run, of
which at most `MOST_PODS` are shown: a manifest chooses its name, and must not fill the memory of a scraper.
"""

from __future__ import annotations

from collections.abc import Iterator

from jettison.agent.http.exposition import Family, Labels, Sample
from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import readings
from jettison.engine.node.snapshot import PodUsage, Snapshot

MOST_PODS = 1000

_POD_GAUGES = (
    ("pod_memory_working_set_bytes", "Memory of a pod that cannot be taken back."),
    ("jettison_pod_ephemeral_storage_bytes", "Local storage of a pod: writable directories, logs and emptyDirs."),
    ("jettison_pod_processes", "Processes and threads of a pod."),
)


def node_families(policy: Policy, snapshot: Snapshot | None) -> list[Family]:
    """Also without a snapshot, and then without samples: a scraper learns that they exist."""
    signals = [] if snapshot is None else list(_signals(policy, snapshot))
    pods = [] if snapshot is None else list(_pods(snapshot))
    told = (
        ("jettison_signal_available", "What is left, in bytes, inodes or processes."),
        ("jettison_signal_capacity", "What there is in all."),
        ("jettison_threshold", "What must be left: below it the threshold is crossed."),
        ("jettison_threshold_headroom", "What is left above the threshold; negative once it is crossed."),
        *_POD_GAUGES,
    )
    return [_family(name, meaning, [*signals, *pods]) for name, meaning in told]


def _family(name: str, meaning: str, samples: list[Sample]) -> Family:
    own = [sample for sample in samples if sample[0] == name]
    return Family(name, "gauge", meaning, lambda: own)


def _signals(policy: Policy, snapshot: Snapshot) -> Iterator[Sample]:
    guards = policy.layouts[snapshot.layout].all
    for signal, reading in readings(snapshot.node).items():
        labels: Labels = (("signal", signal.value),)
        yield "jettison_signal_available", labels, reading.available
        yield "jettison_signal_capacity", labels, reading.capacity
        for guard in guards:
            if guard.signal is signal and not guard.is_inert:
                amount = guard.quantity(reading.capacity).value
                kind: Labels = (*labels, ("type", "hard" if guard.is_hard else "soft"))
                yield "jettison_threshold", kind, amount
                yield "jettison_threshold_headroom", kind, reading.available - amount


def _pods(snapshot: Snapshot) -> Iterator[Sample]:
    for pod in snapshot.pods[:MOST_PODS]:
        labels: Labels = (("namespace", pod.namespace), ("pod", pod.name))
        usage = snapshot.usages.get(pod.uid) or PodUsage()
        amounts = (usage.working_set, usage.ephemeral_storage_bytes, usage.processes)
        for (name, _), amount in zip(_POD_GAUGES, amounts, strict=True):
            # What could not be measured is not shown, rather than shown as zero.
            if amount is not None:
                yield name, labels, amount
