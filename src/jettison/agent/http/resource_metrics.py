"""`/metrics/resource`, with a kubelet's names, labels and help texts: what the metrics API is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from jettison.agent.http.exposition import Family, Labels, Sample
from jettison.engine.node.snapshot import Snapshot
from jettison.runtimes.stats import Details, NodeDetails

Read = Callable[[Details], float | None]

_SECOND: Final = 10**9


def _cpu(details: Details) -> float | None:
    used = details.counters.cpu_ns
    return None if used is None else used / _SECOND


def _working_set(details: Details) -> float | None:
    memory = details.counters.memory
    return None if memory is None else memory.working_set


def _swap(details: Details) -> float | None:
    swap = details.counters.swap
    return None if swap is None else swap.usage


def _swap_limit(details: Details) -> float | None:
    swap = details.counters.swap
    return None if swap is None else swap.limit


def _start(details: Details) -> float | None:
    return None if details.started_ns is None else details.started_ns / _SECOND


# Name, type, help, how it is read. The first word of a name says what it is about.
_TABLE: Final[tuple[tuple[str, str, str, Read], ...]] = (
    ("container_cpu_usage_seconds_total", "counter",
     "[STABLE] Cumulative cpu time consumed by the container in core-seconds", _cpu),
    ("container_memory_working_set_bytes", "gauge",
     "[STABLE] Current working set of the container in bytes", _working_set),
    ("container_start_time_seconds", "gauge",
     "[STABLE] Start time of the container since unix epoch in seconds", _start),
    ("container_swap_limit_bytes", "gauge",
     "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems", _swap_limit),
    ("container_swap_usage_bytes", "gauge",
     "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems", _swap),
    ("node_cpu_usage_seconds_total", "counter",
     "[STABLE] Cumulative cpu time consumed by the node in core-seconds", _cpu),
    ("node_memory_working_set_bytes", "gauge",
     "[STABLE] Current working set of the node in bytes", _working_set),
    ("node_swap_usage_bytes", "gauge",
     "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems", _swap),
    ("pod_cpu_usage_seconds_total", "counter",
     "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", _cpu),
    ("pod_memory_working_set_bytes", "gauge",
     "[STABLE] Current working set of the pod in bytes", _working_set),
    ("pod_swap_usage_bytes", "gauge",
     "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems", _swap),
)  # fmt: skip
_ERROR: Final = (
    "resource_scrape_error",
    "gauge",
    "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
)


def resource_families(snapshot: Snapshot | None, details: NodeDetails | None, most_pods: int) -> Iterator[Family]:
    """In the order of their names. Without a measurement there is only the sample that says so."""
    subjects: dict[str, list[tuple[Labels, Details]]] = {"container": [], "node": [], "pod": []}
    if snapshot is not None and details is not None:
        if details.whole is not None:
            subjects["node"].append(((), details.whole))
        for pod in snapshot.pods[:most_pods]:
            known = details.pods.get(pod.uid)
            if known is None:
                continue
            about: Labels = (("namespace", pod.namespace), ("pod", pod.name))
            subjects["container"] += [((("container", name), *about), each) for name, each in known.containers.items()]
            if known.whole is not None:
                subjects["pod"].append((about, known.whole))
    for name, kind, meaning, read in _TABLE:
        found = list(_samples(name, read, subjects[name.partition("_")[0]]))
        # A start has happened before; everything else is as it was at the time of the look.
        time_ns = None if read is _start or details is None else details.time_ns
        yield Family(name, kind, meaning, lambda found=found: found, time_ns=time_ns)  # type: ignore[misc]
    failed = float(snapshot is None or details is None)
    yield Family(*_ERROR, lambda: [(_ERROR[0], (), failed)])


def _samples(name: str, read: Read, subjects: list[tuple[Labels, Details]]) -> Iterator[Sample]:
    for labels, details in subjects:
        amount = read(details)
        if amount is not None:
            yield name, labels, amount
