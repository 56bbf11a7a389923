"""The whole of `/stats/summary` and `/metrics/resource`, from values to documents, beside what a kubelet writes."""

from __future__ import annotations

from typing import Any

import msgspec

from jettison.agent.http import full_summary as writer
from jettison.agent.http.exposition import exposition
from jettison.agent.http.resource_metrics import resource_families
from jettison.engine.node.snapshot import ContainerUsage, FsStats, PodUsage, Snapshot, VolumeUsage
from jettison.manifests.summary import parse_summary
from jettison.runtimes.linux.cgroups.counters import Counters, MemoryCounters, Stalls, SwapCounters
from jettison.runtimes.linux.network import Interface, Network
from jettison.runtimes.linux.psi import Pressure, Stall
from jettison.runtimes.stats import KUBELET, PODS, Details, NodeDetails, PodDetails
from tests.builders import GI, MI, node, pod, snapshot

NOW_NS = 1893456000 * 10**9
TIME = "2030-01-01T00:00:00Z"
PRESSURE = Pressure(Stall(1.5, 0.5, 0.25, 1234), None)
TOLD = {
    "full": {"total": 0, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0},
    "some": {"total": 1234, "avg10": 1.5, "avg60": 0.5, "avg300": 0.25},
}
ETH0 = Interface("eth0", 10, 1, 20, 2)
USED = PodUsage(
    80 * MI,
    3,
    4096,
    [ContainerUsage("main", 79 * MI, 1024, 2, 2048, 1), ContainerUsage("side", MI)],
    [VolumeUsage("disk", 1024, 5), VolumeUsage("shm", 512, 1)],
)
DISK = FsStats(NOW_NS, 90 * GI, 100 * GI, 10 * GI, 900, 1000, 100)
LAYERS = FsStats(NOW_NS, 40 * GI, 50 * GI, 10 * GI, 450, 500, 50)
SHM = FsStats(NOW_NS, 7 * MI, 8 * MI, MI, 60, 64, 4)


def details(cpu_ns: int, started_s: int | None = None, limit: int | None = None) -> Details:
    memory = MemoryCounters(81 * MI, 80 * MI, limit, 70 * MI, 900, 9)
    stalls = Stalls(PRESSURE, PRESSURE, PRESSURE)
    started_ns = None if started_s is None else started_s * 10**9
    return Details(NOW_NS, Counters(cpu_ns, memory, SwapCounters(MI, 3 * MI), stalls), 250_000_000, started_ns)


SEEN = snapshot(
    1893456000,
    node()._replace(fs=DISK, image_fs=LAYERS, container_fs=LAYERS),
    [pod("web")],
    {"web": USED},
)
FOUND = NodeDetails(
    NOW_NS,
    details(9 * 10**9),
    Network((ETH0,), ETH0),
    {KUBELET: details(10**9), PODS: details(2 * 10**9)},
    {
        "web": PodDetails(
            details(5 * 10**9),
            {"main": details(4 * 10**9, 1700000000, 100 * MI)},
            Network((ETH0,), None),
            {"shm": SHM},
            1600000000 * 10**9,
        )
    },
    1500000000 * 10**9,
)
CPU = {"time": TIME, "usageNanoCores": 250_000_000, "psi": TOLD}
MEMORY = {
    "time": TIME,
    "usageBytes": 81 * MI,
    "workingSetBytes": 80 * MI,
    "rssBytes": 70 * MI,
    "pageFaults": 900,
    "majorPageFaults": 9,
    "psi": TOLD,
}
SWAP = {"time": TIME, "swapAvailableBytes": 2 * MI, "swapUsageBytes": MI}
IO = {"time": TIME, "psi": TOLD}
INTERFACE = {"name": "eth0", "rxBytes": 10, "rxErrors": 1, "txBytes": 20, "txErrors": 2}


def full_summary(seen: Snapshot, found: NodeDetails, *, only_cpu_and_memory: bool = False) -> Any:
    return msgspec.json.decode(writer.full_summary(seen, found, only_cpu_and_memory=only_cpu_and_memory))


def filesystem(stats: FsStats, **used: int) -> dict[str, Any]:
    known = {"availableBytes": stats.available, "capacityBytes": stats.capacity}
    return {"time": TIME, **known, "inodesFree": stats.inodes_free, "inodes": stats.inodes, **used}


def test_a_container_has_all_that_a_kubelet_tells_of_it() -> None:
    (web,) = full_summary(SEEN, FOUND)["pods"]
    main, side = web["containers"]
    assert main == {
        "name": "main",
        "startTime": "2023-11-14T22:13:20Z",
        "cpu": {**CPU, "usageCoreNanoSeconds": 4 * 10**9},
        "memory": {**MEMORY, "availableBytes": 20 * MI},
        "swap": SWAP,
        "io": IO,
        "rootfs": filesystem(LAYERS, usedBytes=1024, inodesUsed=2),
        "logs": filesystem(DISK, usedBytes=2048, inodesUsed=1),
    }
    # What came after the look is as the snapshot has it.
    assert side == {"name": "side", "memory": {"workingSetBytes": MI}}


def test_a_pod_has_its_own_numbers() -> None:
    (web,) = full_summary(SEEN, FOUND)["pods"]
    del web["containers"]
    assert web == {
        "podRef": {"name": "web", "namespace": "default", "uid": "web"},
        "startTime": "2020-09-13T12:26:40Z",
        "cpu": {**CPU, "usageCoreNanoSeconds": 5 * 10**9},
        "memory": MEMORY,
        "swap": SWAP,
        "io": IO,
        "network": {"time": TIME, "name": "", "interfaces": [INTERFACE]},
        "process_stats": {"process_count": 3},
        "ephemeral-storage": filesystem(DISK, usedBytes=4096, inodesUsed=8),
        "volume": [
            {"name": "disk", **filesystem(DISK, usedBytes=1024, inodesUsed=5)},
            {"name": "shm", **filesystem(SHM, usedBytes=512, inodesUsed=1)},
        ],
    }


def test_the_node_keeps_the_numbers_that_were_decided_on() -> None:
    found = full_summary(SEEN, FOUND)["node"]
    assert SEEN.node.memory is not None
    assert found["memory"]["availableBytes"] == SEEN.node.memory.available
    assert found["memory"]["rssBytes"] == 70 * MI
    assert found["startTime"] == "2017-07-14T02:40:00Z"
    assert found["network"] == {"time": TIME, **INTERFACE, "interfaces": [INTERFACE]}
    assert [each["name"] for each in found["systemContainers"]] == ["kubelet", "pods"]
    assert all("rootfs" not in each for each in found["systemContainers"])
    assert set(found) == {
        *("nodeName", "systemContainers", "startTime", "cpu", "memory", "network", "fs", "runtime", "rlimit"),
        *("swap", "io"),
    }


def test_the_reduced_form_has_no_disk_no_network_and_no_processes() -> None:
    found = full_summary(SEEN, FOUND, only_cpu_and_memory=True)
    assert set(found["node"]) == {"nodeName", "systemContainers", "startTime", "cpu", "memory", "swap", "io"}
    (web,) = found["pods"]
    assert set(web) == {"podRef", "startTime", "containers", "cpu", "memory", "swap", "io"}
    assert set(web["containers"][0]) == {"name", "startTime", "cpu", "memory", "swap", "io"}


def test_what_is_written_can_be_decided_on() -> None:
    """Our own reader takes it, as it takes a kubelet's."""
    stats, usages = parse_summary(msgspec.json.encode(full_summary(SEEN, FOUND)))
    assert SEEN.node.memory is not None
    assert stats.memory == SEEN.node.memory._replace(time_ns=NOW_NS)
    assert (stats.fs, stats.container_fs) == (DISK, LAYERS)
    assert usages["web"].containers[0] == ContainerUsage("main", 80 * MI, 1024, 2, 2048, 1)


def test_a_node_without_details_has_what_the_snapshot_has() -> None:
    nothing = NodeDetails(NOW_NS, None, None, {}, {})
    found = full_summary(SEEN, nothing)
    assert "cpu" not in found["node"]
    assert found["pods"][0]["memory"] == {"workingSetBytes": 80 * MI}


def test_resource_metrics_have_the_kubelets_names_and_labels() -> None:
    lines = exposition(resource_families(SEEN, FOUND, 10)).splitlines()
    about = 'container="main",namespace="default",pod="web"'
    milliseconds = NOW_NS // 10**6
    samples = [line for line in lines if not line.startswith("#")]
    assert samples == [
        f"container_cpu_usage_seconds_total{{{about}}} 4 {milliseconds}",
        f"container_memory_working_set_bytes{{{about}}} {80 * MI} {milliseconds}",
        f"container_start_time_seconds{{{about}}} 1700000000",
        f"container_swap_limit_bytes{{{about}}} {3 * MI} {milliseconds}",
        f"container_swap_usage_bytes{{{about}}} {MI} {milliseconds}",
        f"node_cpu_usage_seconds_total 9 {milliseconds}",
        f"node_memory_working_set_bytes {80 * MI} {milliseconds}",
        f"node_swap_usage_bytes {MI} {milliseconds}",
        f'pod_cpu_usage_seconds_total{{namespace="default",pod="web"}} 5 {milliseconds}',
        f'pod_memory_working_set_bytes{{namespace="default",pod="web"}} {80 * MI} {milliseconds}',
        f'pod_swap_usage_bytes{{namespace="default",pod="web"}} {MI} {milliseconds}',
        "resource_scrape_error 0",
    ]
    assert "# TYPE node_cpu_usage_seconds_total counter" in lines
    assert [
        line for line in exposition(resource_families(SEEN, FOUND, 0)).splitlines() if line.startswith("pod_")
    ] == []


def test_a_failed_measurement_is_a_sample() -> None:
    lines = exposition(resource_families(SEEN, None, 10)).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["resource_scrape_error 1"]
