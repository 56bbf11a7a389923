"""Made-up nodes, pods and usages in every shape that the readers can produce."""

from __future__ import annotations

from hypothesis import strategies as st

from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    VolumeUsage,
)
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.engine.pods.pod import Container, Pod, PodResources, Volume
from jettison.engine.scheduling.placement import Toleration

_QUANTITIES = ["0", "1", "100m", "64Mi", "0.5Ki", "1000m", "1e3", "1Gi", "1500M", "0.1", "12345678901234567890", "0Ki"]

quantities: st.SearchStrategy[Quantity] = st.sampled_from(_QUANTITIES).map(parse)
names = st.sampled_from(["a", "b", "c", "ü", "\u2028", 'q"'])
resources = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu"]), quantities, max_size=3
)
containers = st.builds(Container, names, resources, resources)
init_containers = st.builds(Container, names, resources, resources, st.booleans())
volumes = st.builds(Volume, names, st.booleans(), st.none() | quantities.filter(lambda quantity: quantity.sign > 0))
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "k"]),
    st.sampled_from(["", "Exists", "Equal"]),
    st.sampled_from(["", "v"]),
    st.sampled_from(["", "NoSchedule"]),
    st.none() | st.integers(-5, 5),
)


@st.composite
def pods(draw: st.DrawFn, uid: str | None = None) -> Pod:
    """A pod as `pod_from` may return it."""
    is_mirror = draw(st.booleans())
    return Pod(
        draw(names),
        draw(st.sampled_from(["", "default", "kube-system"])),
        uid or draw(st.uuids().map(str)),
        draw(st.integers(0, 3)),
        draw(st.none() | st.sampled_from([-5, 0, 1000, 2_000_000_000])),
        draw(st.sampled_from(["", "system-node-critical"])),
        draw(st.booleans()),
        is_mirror,
        draw(st.sampled_from(["", "Burstable"])),
        tuple(draw(st.lists(containers, max_size=2))),
        tuple(draw(st.lists(init_containers, max_size=2))),
        draw(resources),
        draw(st.none() | st.builds(PodResources, resources, resources)),
        tuple(draw(st.lists(volumes, max_size=2))),
        draw(st.none() | st.integers(-1, 60)),
        tuple(draw(st.lists(tolerations, max_size=2))),
        draw(st.sampled_from(["", "Running"])),
        draw(st.sampled_from(["", "node1"])),
        draw(st.sampled_from(["", "static-uid"])) if is_mirror else "",
    )


times = st.none() | st.integers(0, 2**61)
amounts = st.none() | st.integers(0, 2**40) | st.integers(-(2**20), -1)
memory = st.builds(MemoryStats, times, amounts, amounts, amounts)
filesystems = st.builds(FsStats, times, *[amounts] * 6)
processes = st.builds(ProcessStats, times, st.none() | st.integers(0, 40000), st.none() | st.integers(0, 40000))


@st.composite
def nodes(draw: st.DrawFn) -> NodeStats:
    """A node's numbers, some of them missing."""
    has_pods = draw(st.booleans())
    return NodeStats(
        draw(st.sampled_from(["", "node1"])),
        draw(st.none() | memory),
        draw(st.none() | memory) if has_pods else None,
        has_pods,
        draw(st.none() | filesystems),
        draw(st.none() | filesystems),
        draw(st.none() | filesystems),
        draw(st.none() | processes),
    )


# Lists and not tuples, because that is what a reader makes.
container_usages = st.builds(ContainerUsage, names, *[amounts] * 5)
volume_usages = st.builds(VolumeUsage, names, amounts, amounts)
pod_usages = st.builds(
    PodUsage,
    amounts,
    amounts,
    amounts,
    st.lists(container_usages, max_size=2),
    st.lists(volume_usages, max_size=2),
)
