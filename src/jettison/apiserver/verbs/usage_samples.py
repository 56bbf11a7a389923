"""What nodes say on `/metrics/resource`, read as values, and the processor's use between two such answers.

An answer comes from another machine: only lines of the expected form count, everything else is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from jettison.values import frozen

_NODE_CPU, _NODE_MEMORY = "node_cpu_usage_seconds_total", "node_memory_working_set_bytes"
_CPU, _MEMORY, _START = (
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "container_start_time_seconds",
)
# Names of Kubernetes have no character that would have to be escaped; a sample with another name is none of ours.
_LINE: Final = re.compile(
    rf"({_NODE_CPU}|{_NODE_MEMORY}|{_CPU}|{_MEMORY}|{_START})(?:\{{([^}}\n]{{1,1000}})\}})?"
    r" ([0-9.eE+-]{1,30})(?: ([0-9]{1,15}))?"
)
_LABEL: Final = re.compile(r'([a-z_]+)="([a-z0-9.-]{1,253})"(?:,|$)')

# Namespace, pod, container; the empty one is the node.
Key = tuple[str, str, str]
NODE: Final[Key] = ("", "", "")


class UsageSample(NamedTuple):
    """One container, or the node. `cpu_ns` is since its start; times are the node's."""

    cpu_ns: int
    memory: int
    time_ms: int
    # What tells two runs of a container apart.
    start: float = 0.0


class Usage(NamedTuple):
    """Between two samples."""

    nano_cores: int
    memory: int
    time_ms: int
    window_ms: int


@frozen
class Scrape:
    """One answer of one node."""

    samples: Mapping[Key, UsageSample]


def parse_scrape(text: str) -> Scrape:
    """What has both processor time and memory."""
    cpu: dict[Key, tuple[int, int]] = {}
    memory: dict[Key, int] = {}
    start: dict[Key, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        key = None if match is None else _key(match[2] or "")
        if match is None or key is None:
            continue
        try:
            amount = float(match[3])
            whole = round(amount * 10**9) if match[1] in (_CPU, _NODE_CPU) else int(amount)
        except (ValueError, OverflowError):
            continue
        if match[1] in (_CPU, _NODE_CPU) and match[4]:
            cpu[key] = whole, int(match[4])
        elif match[1] == _START:
            start[key] = amount
        elif match[1] in (_MEMORY, _NODE_MEMORY):
            memory[key] = whole
    return Scrape(
        {
            key: UsageSample(used, memory[key], time_ms, start.get(key, 0.0))
            for key, (used, time_ms) in cpu.items()
            if key in memory
        }
    )


def _key(labels: str) -> Key | None:
    if not labels:
        return NODE
    found = dict(_LABEL.findall(labels))
    names = tuple(found.get(name, "") for name in ("namespace", "pod", "container"))
    return (names[0], names[1], names[2]) if all(names) else None


def usages(before: Scrape, now: Scrape) -> dict[Key, Usage]:
    """Of what ran all the time: a container that was started in between has no use yet."""
    return dict(_compared(before, now))


def _compared(before: Scrape, now: Scrape) -> Iterator[tuple[Key, Usage]]:
    for key, sample in now.samples.items():
        known = before.samples.get(key)
        if known is None or known.start != sample.start:
            continue
        window_ms, used_ns = sample.time_ms - known.time_ms, sample.cpu_ns - known.cpu_ns
        if window_ms > 0 and used_ns >= 0:
            yield key, Usage(used_ns * 1000 // window_ms, sample.memory, sample.time_ms, window_ms)
