"""Hypothesis strategies for the values that tests draw: quantities, pods, usages, nodes, configurations, JSON.

They draw what could be real rather than all that could be typed: few names, so that some are equal; small numbers, so
that some meet; and now and then nothing where a number was expected.

A pod is made from one drawn number instead of from eighty drawn parts: fifty times as fast, and a failure still shrinks
to the fewest pods.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from jettison.engine.config.kubelet_fields import FIELDS, Kind
from jettison.engine.config.policy import Policy, Switches
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
    Layout,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    Snapshot,
    VolumeUsage,
)
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.engine.pods.pod import Container, Pod, PodResources, Volume
from tests.builders import GI, MI, SECOND_NS, document, policy

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e0")


def quantity_texts() -> st.SearchStrategy[str]:
    """Texts of the grammar: sign, digits, point, suffix."""
    return st.builds(
        lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
        st.sampled_from(["", "", "+", "-"]),
        st.integers(0, 10**20).map(str) | st.sampled_from(["0", "007", "1000"]),
        st.just("") | st.text("0123456789", max_size=12).map(lambda digits: f".{digits}"),
        st.sampled_from(SUFFIXES),
    )


quantities: st.SearchStrategy[Quantity] = quantity_texts().map(parse)


def resource_maps(chance: Random, most: int = 3) -> dict[str, Quantity]:
    """Requests or limits."""
    names = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
    return {name: chance.choice(_SMALL) for name in chance.sample(names, chance.randint(0, most))}


_SMALL = [parse(text) for text in ("0", "1", "1500m", "1Ki", "1Mi", "100Mi", "1Gi", "5k", "250m")]
_LIMITS = [None, *(parse(text) for text in ("1Ki", "1Mi", "1Gi"))]


def _container(chance: Random) -> Container:
    """Few names, so that two containers of a pod may share one."""
    return Container(chance.choice("cds"), resource_maps(chance), resource_maps(chance), chance.random() < 0.5)


def _pod(seed: int, uid: str) -> Pod:
    chance = Random(seed)
    containers = [_container(chance) for _ in range(chance.randint(0, 4))]
    split = chance.randint(0, len(containers))
    volumes = [Volume(name, chance.random() < 0.5, chance.choice(_LIMITS)) for name in chance.choices("vw", k=2)]
    return Pod(
        name=chance.choice(["a", "b", uid]),
        namespace=chance.choice(["default", "kube-system"]),
        uid=uid,
        priority=chance.choice([None, -10, 0, 1, 1000, 2_000_000_000]),
        priority_class=chance.choice(["", "", "system-node-critical"]),
        is_static=chance.random() < 0.1,
        reported_qos=chance.choice(["", "", "BestEffort", "Burstable", "Guaranteed"]),
        containers=tuple(containers[:split]),
        init_containers=tuple(containers[split:]),
        overhead=resource_maps(chance),
        resources=chance.choice([None, None, PodResources(resource_maps(chance), resource_maps(chance))]),
        volumes=tuple(volumes[: chance.randint(0, 2)]),
        grace_seconds=chance.choice([None, 0, 5, 30]),
    )


def _some(chance: Random, most: int) -> int | None:
    """Nothing, zero, one, a round number, or any number."""
    return chance.choice([None, 0, 1, most // 2, chance.randint(0, most)])


def _usage(seed: int) -> PodUsage:
    chance = Random(seed)
    size, count = 2 * GI, 1000
    return PodUsage(
        _some(chance, size),
        _some(chance, count),
        _some(chance, size),
        [
            ContainerUsage(
                name,
                _some(chance, size),
                _some(chance, size),
                _some(chance, count),
                _some(chance, size),
                _some(chance, count),
            )
            for name in chance.choices(["c", "d", "s", "debugger"], k=chance.randint(0, 2))
        ],
        [
            VolumeUsage(name, _some(chance, size), _some(chance, count))
            for name in chance.choices("vwx", k=chance.randint(0, 2))
        ],
    )


def _fs(chance: Random) -> FsStats | None:
    """A disk of 100Gi, with holes."""
    if chance.random() < 0.2:
        return None
    time_ns = chance.choice([None, chance.randint(0, 50) * SECOND_NS])
    capacity = chance.choice([100 * GI, 100 * GI, None])
    available = chance.choice([None, chance.randint(-GI, 100 * GI), chance.randint(0, GI)])
    free = chance.choice([None, chance.randint(0, 10**6), 0])
    return FsStats(time_ns, available, capacity, None, free, chance.choice([10**6, None]))


def _memory(chance: Random) -> MemoryStats | None:
    """Of a machine with about 8Gi, with holes."""
    if chance.random() < 0.2:
        return None
    time_ns = chance.choice([None, chance.randint(0, 50) * SECOND_NS])
    available = chance.choice([None, chance.randint(-GI, 8 * GI), chance.randint(0, 100 * MI)])
    return MemoryStats(time_ns, available, GI, chance.choice([None, chance.randint(0, 8 * GI)]))


def _node(seed: int) -> NodeStats:
    chance = Random(seed)
    memory, pods_memory = _memory(chance), _memory(chance)
    disks = _fs(chance), _fs(chance), _fs(chance)
    processes = chance.choice([None, ProcessStats(None, 32768, chance.choice([None, chance.randint(0, 40000)]))])
    return NodeStats("n", memory, pods_memory, pods_memory is not None, *disks, processes)


_seeds = st.integers(0, 2**24)


def pods(uid: str = "u") -> st.SearchStrategy[Pod]:
    """One pod. Priorities and sizes are few, so that ties happen; some pods are critical."""
    return st.builds(_pod, _seeds, st.just(uid))


def pod_lists(max_size: int = 6) -> st.SearchStrategy[list[Pod]]:
    """Pods with uids of their own."""
    return st.lists(_seeds, max_size=max_size).map(
        lambda seeds: [_pod(seed, f"u{index}") for index, seed in enumerate(seeds)]
    )


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Pod], dict[str, PodUsage]]:
    """Pods, and statistics for most of them."""
    found = draw(pod_lists())
    chance = Random(draw(_seeds))
    return found, {pod.uid: _usage(chance.randrange(2**24)) for pod in found if chance.random() < 0.8}


nodes = st.builds(_node, _seeds)
layouts = st.builds(Layout, st.booleans(), st.booleans())


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """One instant within a minute."""
    found, usages = draw(crowds())
    return Snapshot(draw(st.integers(0, 60)) * SECOND_NS, draw(nodes), found, usages, draw(layouts))


_signals = st.sampled_from([str(signal) for signal in Signal])
_amounts = st.sampled_from(["1", "100Mi", "1Gi", "4Gi", "10Gi", "5%", "10%", "50%", "99.9%", "NaN%", "0.0%"])


@st.composite
def policies(draw: st.DrawFn, switches: Switches | None = None) -> Policy:
    """Any thresholds on any signals, with any switches unless they are given."""
    soft = draw(st.dictionaries(_signals, _amounts, max_size=3))
    return policy(
        draw(st.dictionaries(_signals, _amounts, max_size=4)),
        soft,
        grace={name: draw(st.sampled_from(["0s", "1ns", "10s", "30s"])) for name in soft},
        reclaim=draw(st.dictionaries(_signals, st.sampled_from(["0", "1Gi", "5%", "150%"]), max_size=2)),
        guards_allocatable=draw(st.booleans()),
        switches=switches or draw(st.builds(Switches, st.booleans(), st.booleans(), st.booleans())),
        evictionMaxPodGracePeriod=draw(st.integers(-1, 60)),
        evictionPressureTransitionPeriod=draw(st.sampled_from(["1s", "30s", "5m"])),
        localStorageCapacityIsolation=draw(st.booleans()),
    )


_VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.THRESHOLDS: st.dictionaries(_signals, _amounts, max_size=3),
    Kind.PAIRS: st.dictionaries(st.sampled_from(["cpu", "memory", "pid"]), st.sampled_from(["1", "1Gi"]), max_size=2),
    Kind.DURATION: st.integers(0, 10**13).map(lambda nanoseconds: f"{nanoseconds}ns"),
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.INT64: st.integers(-(2**63), 2**63 - 1),
    Kind.BOOL: st.booleans(),
    Kind.TEXT: st.text(max_size=5),
    Kind.TEXTS: st.lists(st.text(max_size=5), max_size=3),
}


def kubelet_documents() -> st.SearchStrategy[dict[str, Any]]:
    """KubeletConfigurations with some of the known fields, each of the right type, sensible or not."""
    optional = {row.key: _VALUES[row.kind] for row in FIELDS if row.key is not None}
    # Null is as good as nothing, but refused where a duration belongs.
    optional |= {row.key: st.none() | _VALUES[row.kind] for row in FIELDS if row.key and row.kind is not Kind.DURATION}
    return st.fixed_dictionaries({}, optional=optional).map(lambda fields: document(**fields))


# Surrogates and control characters included: JSON escapes can spell them.
wild_texts = st.text(max_size=8) | st.sampled_from(["\ud800", "\x00", "1Gi", "10%", "5s", "9" * 5000, "\u2028", "NaN"])
scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([-1, 0, 2**31, 2**63, 2**64, -(2**63) - 1])
    | st.floats()
    | wild_texts
)


def any_json(keys: st.SearchStrategy[str] | None = None, max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Whatever JSON can say; `keys` makes some of its maps look like what a reader expects."""
    names = wild_texts if keys is None else keys | wild_texts
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=max_leaves,
    )
