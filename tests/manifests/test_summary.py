"""The Summary API's JSON to node statistics and usages (spec §3.1, §14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jettison.engine.node.signals import Signal, readings
from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
    Layout,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    VolumeUsage,
)
from jettison.errors import ManifestError
from jettison.manifests.summary import layout_of, parse_summary, summary_from

TIME = "2030-01-01T01:00:00Z"
TIME_NS = 1_893_459_600 * 10**9
FS = {
    "time": TIME,
    "availableBytes": 10,
    "capacityBytes": 100,
    "usedBytes": 90,
    "inodesFree": 5,
    "inodes": 6,
    "inodesUsed": 1,
}
# The minimal document of §14 that drives every signal.
DOCUMENT: dict[str, Any] = {
    "node": {
        "nodeName": "n1",
        "memory": {"time": TIME, "availableBytes": 3, "usageBytes": 7, "workingSetBytes": 5, "rssBytes": 1},
        "fs": FS,
        "runtime": {"imageFs": FS, "containerFs": FS},
        "rlimit": {"time": TIME, "maxpid": 32768, "curproc": 812},
        "systemContainers": [
            {"name": "kubelet", "memory": {"availableBytes": 1, "workingSetBytes": 1}},
            {"name": "pods", "memory": {"time": TIME, "availableBytes": 2, "usageBytes": 4, "workingSetBytes": 3}},
        ],
    },
    "pods": [
        {
            "podRef": {"name": "web", "namespace": "default", "uid": "u-1"},
            "memory": {"time": TIME, "workingSetBytes": 25},
            "process_stats": {"process_count": 12},
            "ephemeral-storage": {"usedBytes": 40, "inodesUsed": 32},
            "volume": [{"name": "cache", "usedBytes": 20, "inodesUsed": 10}],
            "containers": [
                {
                    "name": "app",
                    "memory": {"workingSetBytes": 24},
                    "rootfs": {"usedBytes": 16, "inodesUsed": 2},
                    "logs": {"usedBytes": 4, "inodesUsed": 1},
                }
            ],
        }
    ],
}  # fmt: skip


def read(document: dict[str, Any]) -> tuple[NodeStats, dict[str, PodUsage]]:
    return parse_summary(json.dumps(document).encode())


@pytest.mark.parametrize("reader", [read, summary_from])
def test_everything_eviction_reads(reader: Any) -> None:
    """From bytes and from a decoded document alike; what no rule reads is skipped."""
    node, usages = reader(DOCUMENT)
    disk = FsStats(TIME_NS, 10, 100, 90, 5, 6, 1)
    assert node == NodeStats(
        "n1",
        MemoryStats(TIME_NS, 3, 7, 5),
        MemoryStats(TIME_NS, 2, 4, 3),
        True,
        disk,
        disk,
        disk,
        ProcessStats(TIME_NS, 32768, 812),
    )
    assert usages == {
        "u-1": PodUsage(25, 12, 40, [ContainerUsage("app", 24, 16, 2, 4, 1)], [VolumeUsage("cache", 20, 10)])
    }
    assert set(readings(node)) == set(Signal)


def test_what_was_not_measured_is_none() -> None:
    """Never zero; and a node without the `pods` container is told from one whose container has no numbers."""
    node, usages = read(
        {"node": {"systemContainers": [{"name": "pods"}], "memory": {}, "fs": {"time": None}}, "pods": [{}]}
    )
    assert node == NodeStats("", MemoryStats(), None, True, FsStats())
    assert usages == {"/": PodUsage(None, None, None, [], [])}
    assert read({}) == (NodeStats(), {})
    assert readings(node) == {}


@pytest.mark.parametrize(
    ("wire", "number"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1), (2**64 - 2**20, -(2**20))]
)
def test_what_wrapped_below_zero_is_negative_again(wire: int, number: int) -> None:
    """The wire's 64 bits have no sign, the kubelet's have; a cgroup over its limit has less than nothing left."""
    node, usages = read(
        {
            "node": {"memory": {"availableBytes": wire}},
            "pods": [{"podRef": {"uid": "u"}, "memory": {"workingSetBytes": wire}}],
        }
    )
    assert node.memory == MemoryStats(available=number)
    assert usages["u"].working_set == number


@pytest.mark.parametrize("wire", [2**64, 10**30])
def test_more_than_64_bits(wire: int) -> None:
    """Refused with the number."""
    with pytest.raises(ManifestError, match=f"summary: `{wire}` does not fit into 64 bits"):
        read({"node": {"fs": {"availableBytes": wire}}})


def test_a_pod_whose_working_set_is_missing_uses_nothing() -> None:
    """Then the message names the pod; without anything about its memory it does not."""
    names = {"name": "web", "namespace": "default", "uid": "u"}
    for memory, working_set in (({}, 0), ({"time": TIME}, 0), (None, None)):
        _, usages = summary_from({"pods": [{"podRef": names, "memory": memory}]})
        assert usages["u"].working_set == working_set


def test_gos_zero_time_is_no_time() -> None:
    """A reading without a time counts as new in every step, and upstream takes the year 1 for none."""
    node, _ = read({"node": {"memory": {"time": "0001-01-01T00:00:00Z"}, "rlimit": {"time": "0001-01-01T00:00:00Z"}}})
    assert node.memory == MemoryStats()
    assert node.processes == ProcessStats()


def test_a_bad_time_is_named_with_its_source() -> None:
    """Which file, which value."""
    with pytest.raises(ManifestError) as refusal:
        parse_summary(b'{"node": {"fs": {"time": "yesterday"}}}', "stats.json")
    assert str(refusal.value) == "stats.json: `yesterday` is not a time such as `2030-01-01T00:00:00Z`"


def test_statistics_without_a_uid_are_known_by_name() -> None:
    """As pods without one are."""
    _, usages = read({"pods": [{"podRef": {"name": "a", "namespace": "b"}}]})
    assert set(usages) == {"b/a"}


def test_of_two_entries_of_one_pod_the_last_counts() -> None:
    """As in upstream's lookup by uid."""
    entries = [{"podRef": {"uid": "u"}, "memory": {"workingSetBytes": size}} for size in (1, 2)]
    _, usages = read({"pods": entries})
    assert usages["u"].working_set == 2


SMALL, LARGE = FsStats(capacity=1, inodes=1), FsStats(capacity=2, inodes=1)


@pytest.mark.parametrize(
    ("fs", "image_fs", "container_fs", "layout"),
    [
        (SMALL, SMALL, SMALL, Layout()),
        (SMALL, LARGE, LARGE, Layout(has_image_fs=True)),
        (SMALL, LARGE, SMALL, Layout(has_image_fs=True, is_split=True)),
        (SMALL, None, None, Layout()),
        (None, LARGE, SMALL, Layout()),
        (SMALL, LARGE, None, Layout(has_image_fs=True)),
    ],
)
def test_a_guess_at_the_layout(
    fs: FsStats | None, image_fs: FsStats | None, container_fs: FsStats | None, layout: Layout
) -> None:
    """Disks of different sizes are different disks; what is unknown is taken for the same."""
    assert layout_of(NodeStats(fs=fs, image_fs=image_fs, container_fs=container_fs)) == layout
