"""The Summary API, written as the kubelet writes it and read back."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.node.snapshot import ContainerUsage, MemoryStats, NodeStats, PodUsage, VolumeUsage
from jettison.manifests.summary import parse_summary
from jettison.manifests.summary_writer import summary_document
from tests.builders import MI, SECOND_NS, memory_used, node, pod
from tests.manifests.worlds import nodes, pod_usages

FULL = PodUsage(5 * MI, 3, 7, [ContainerUsage("c", 5 * MI, 1, 2, 3, 4)], [VolumeUsage("v", 5, 6)])


@given(nodes(), st.dictionaries(st.sampled_from(["a", "b", "unknown"]), pod_usages))
def test_what_is_written_exactly_reads_back_the_same(stats: NodeStats, usages: dict[str, PodUsage]) -> None:
    document = summary_document(stats, usages, [pod("a"), pod("b")], is_exact=True)

    assert parse_summary(msgspec.json.encode(document)) == (stats, usages)


def test_kubernetes_cuts_times_to_seconds() -> None:
    stats = NodeStats("n", MemoryStats(1893456000 * SECOND_NS + 1, 1, 2, 3))

    assert summary_document(stats, {}, [])["node"]["memory"]["time"] == "2030-01-01T00:00:00Z"
    assert summary_document(stats, {}, [], is_exact=True)["node"]["memory"]["time"] == "2030-01-01T00:00:00.000000001Z"


def test_the_fields_stand_where_the_kubelet_puts_them() -> None:
    document = summary_document(node(), {"a": FULL}, [pod("a")])

    assert document["pods"] == [
        {
            "podRef": {"name": "a", "namespace": "default", "uid": "a"},
            "containers": [
                {
                    "name": "c",
                    "memory": {"workingSetBytes": 5 * MI},
                    "rootfs": {"usedBytes": 1, "inodesUsed": 2},
                    "logs": {"usedBytes": 3, "inodesUsed": 4},
                }
            ],
            "memory": {"workingSetBytes": 5 * MI},
            "process_stats": {"process_count": 3},
            "ephemeral-storage": {"usedBytes": 7},
            "volume": [{"name": "v", "usedBytes": 5, "inodesUsed": 6}],
        }
    ]
    assert set(document["node"]) == {"nodeName", "memory", "fs", "runtime", "rlimit"}


def test_the_reduced_variant_has_no_disks_and_no_process_ids() -> None:
    document = summary_document(node(), {"a": FULL}, [pod("a")], only_cpu_and_memory=True)

    assert set(document["node"]) == {"nodeName", "memory"}
    (usage,) = document["pods"]
    assert set(usage) == {"podRef", "containers", "memory"}
    assert set(usage["containers"][0]) == {"name", "memory"}


def test_an_available_below_zero_wraps_as_on_the_wire() -> None:
    stats = NodeStats("n", pods_memory=MemoryStats(available=-1, working_set=2), has_pods_container=True)

    (container,) = summary_document(stats, {}, [])["node"]["systemContainers"]

    assert container["memory"]["availableBytes"] == 2**64 - 1


def test_an_unknown_pod_keeps_its_uid() -> None:
    (usage,) = summary_document(node(), {"gone": memory_used(1)}, [])["pods"]

    assert usage["podRef"] == {"uid": "gone"}
