"""A cgroup v2 machine, for real: what it is, what is read there, evicted and killed, and what rings the alarm."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.live.guest import SOURCE, Guest, GuestResult

MIB = 1024 * 1024
EVERY_BYTE = bytes(range(256))
# What an interpreter's child has beside what it was told to hold: page tables, stacks, its share of the heap.
OTHER = 6 * MIB
POLLED = "no memory threshold events: memory is polled every 20 ms to 10 s, by its headroom"


# Emulated, the guest takes a minute alone and several on a busy machine; the first test waits for all of it.
pytestmark = pytest.mark.timeout(800)


@pytest.fixture(scope="module")
def seen(guest: Guest) -> GuestResult:
    """One boot for all."""
    root = Path(__file__).parents[2]
    needed = ("guest_side.py", "guest_kernel.py", "guest_probe.py")
    files = {f"tests/live/{name}": (root / "tests/live" / name).read_bytes() for name in needed}
    files |= {"tests/emptying.py": (root / "tests/emptying.py").read_bytes(), "cargo/bytes": EVERY_BYTE}
    result = guest.run((root / "tests/live/guest_node.py").read_text(), files, timeout=700, disk_mib=64)
    assert result.exit_code == 7, result.output
    return result


def said(seen: GuestResult, node: str, name: str) -> list[dict[str, Any]]:
    """The facts of this name, in order."""
    return [values for each, values in seen.values[f"{node}_facts"] if each == name]


def test_the_exit_code_and_the_files_pass_through(seen: GuestResult) -> None:
    """A script's failure is seen as such: the script ends with 7, which only its own last line can produce."""
    assert seen.exit_code == 7, seen.output
    assert bytes.fromhex(seen.values["cargo"]) == EVERY_BYTE


def test_cgroup_v2_alone_with_the_controllers_of_a_node(seen: GuestResult) -> None:
    """The cgroup v2 machine: one unified hierarchy, no v1 beside it, memory, cpu and pids in it."""
    assert seen.values["cgroup_mounts"] == ["cgroup2"]
    assert {"memory", "cpu", "pids"} <= set(seen.values["controllers"])


def test_the_interpreter_and_the_code_are_those_under_test(seen: GuestResult) -> None:
    """What runs inside is this checkout on this interpreter, with its requirements and their compiled parts."""
    own = SOURCE / "jettison" / "__init__.py"
    assert seen.values["python"] == sys.version
    assert seen.values["jettison"] == ["/src/jettison/__init__.py", hashlib.sha256(own.read_bytes()).hexdigest()]
    assert seen.values["engine"] == ["/src/jettison/engine"]
    assert seen.values["bytecode_flags"] == 1, "compiled inside the guest, which costs seconds"
    for name, version in seen.values["requirements"].items():
        assert version == importlib.metadata.version(name)
    assert seen.values["answers"] == ["plain", [1], [1]]


def test_the_clock_and_the_loopback_work(seen: GuestResult) -> None:
    """An agent writes times and serves on a local socket; a machine without either would hide that."""
    assert abs(seen.values["time"] - time.time()) < 3600
    assert seen.values["loopback"]


def test_limits_are_written_as_version_2_has_them(seen: GuestResult) -> None:
    """All controllers are passed down, none is refused, and the normal share stays the normal weight."""
    assert seen.values["version"] == "v2"
    assert seen.values["refused"] == []
    assert seen.values["limits"] == {
        "memory.max": str(96 * MIB),
        "cpu.weight": "100",
        "cpu.max": "150000 100000",
        "pids.max": "20",
    }
    assert seen.values["limit"] == 96 * MIB


def test_a_cgroup_is_read_as_it_is(seen: GuestResult) -> None:
    """16 MiB of memory and 8 MiB of cache read once: the cache is usage but no working set; threads are tasks."""
    cheap, usage, inactive, working_set = seen.values["usage"]
    assert 24 * MIB <= usage <= 24 * MIB + OTHER
    assert abs(cheap - usage) <= MIB
    assert 8 * MIB <= inactive <= 8 * MIB + MIB
    assert working_set == usage - inactive
    assert seen.values["tasks"] == 4
    assert 50e6 <= seen.values["cpu_ns"] <= 20e9


def test_the_summary_has_everything_of_version_2(seen: GuestResult) -> None:
    """Read from cgroup v2 itself: processor time, anonymous memory, faults, swap and stalls, also of one container."""
    summary = seen.values["part_summary"]
    node, pods = summary["node"], {each["podRef"]["name"]: each for each in summary["pods"]}
    assert {each["name"] for each in node["systemContainers"]} == {"kubelet", "pods"}
    for each in (node, pods["calm"], pods["calm"]["containers"][0], pods["thrash"]["containers"][0]):
        assert each["cpu"]["usageCoreNanoSeconds"] > 0
        assert each["cpu"]["usageNanoCores"] >= 0
        assert 0 < each["memory"]["workingSetBytes"] <= each["memory"]["usageBytes"]
        assert each["memory"]["pageFaults"] >= each["memory"]["majorPageFaults"] >= 0
        assert set(each["io"]["psi"]) == {"some", "full"}
    assert pods["calm"]["memory"]["rssBytes"] >= 10 * MIB
    thrash = pods["thrash"]["containers"][0]["memory"]
    assert thrash["psi"]["some"]["total"] > 0
    assert thrash["majorPageFaults"] > 0
    assert thrash["availableBytes"] == 24 * MIB - thrash["workingSetBytes"]


def test_the_root_is_anonymous_memory_and_files(seen: GuestResult) -> None:
    """It has no usage, limit or count of its own: the one is put together, the others are not known."""
    cheap, usage, inactive = seen.values["root"]
    anonymous, files, inactive_file = seen.values["root_stat"]
    total, free, tasks, most_tasks = seen.values["machine"]
    assert abs(usage - (anonymous + files)) <= MIB
    assert abs(cheap - usage) <= MIB
    assert abs(inactive - inactive_file) <= MIB
    assert inactive >= 8 * MIB
    assert 24 * MIB <= usage < total - free
    assert seen.values["root_limit"] is None
    assert seen.values["root_tasks"] is None
    assert seen.values["root_cpu_ns"] > seen.values["cpu_ns"]
    assert 4 < tasks < most_tasks


def test_a_cgroup_that_vanishes_is_gone_and_one_of_its_name_is_new(seen: GuestResult) -> None:
    """Descriptors are kept open; those of a removed cgroup must neither fail nor speak for its successor."""
    assert seen.values["survivors"] == 0
    assert seen.values["gone"] == [None] * 4
    usage, tasks = seen.values["back"]
    assert usage < MIB
    assert tasks == 0


def test_polling_shortens_its_pause_by_the_headroom(seen: GuestResult) -> None:
    """An eighth of a second at 128 MiB, a small part of that near the threshold; then it rings.

    A busy machine makes pauses longer and never shorter, hence the shortest of each phase.
    """
    assert seen.values["poll_source"] == "poll"
    assert seen.values["poll_lacks"] == [POLLED]
    calm, growing = ([moment for moment, _ in seen.values[f"{phase}_looks"]] for phase in ("calm", "growing"))
    pause = min(after - before for before, after in pairwise(calm))
    assert pause >= 0.12
    assert min(after - before for before, after in pairwise(growing[-9:])) <= pause / 2
    headroom = seen.values["growing_looks"][-1][1]
    assert -16 * MIB < headroom < 0


def test_the_leaking_pod_goes_and_its_neighbours_live(seen: GuestResult) -> None:
    """The node is the whole machine; no other pod is touched, and the kernel's OOM killer did not act."""
    before, after = seen.values["whole_before"], seen.values["whole_after"]
    assert [values["pod"] for values in said(seen, "whole", "eviction_started")] == ["default/leak"]
    assert seen.values["whole_phases"] == {
        "busy": ["Running", ""],
        "calm": ["Running", ""],
        "leak": ["Failed", "Evicted"],
        "pair": ["Running", ""],
    }
    assert after == {place: pids for place, pids in before.items() if not place.endswith("podleak")}
    assert seen.values["whole_kernel_kills"] == 0
    # The pair comes to its limit later.
    assert {each["pod"] for each in said(seen, "whole", "out_of_memory_kill")} <= {"default/pair"}
    # An emulated machine may take 50 ms for a record.
    assert not [each for each in said(seen, "whole", "action_failed") if "the disk has not taken it" not in each["why"]]


def test_the_crossing_is_noticed_by_the_poll_and_not_by_the_tick(seen: GuestResult) -> None:
    """The agent itself looks every 10 s, in which this leak takes hundreds of MiB."""
    crossed = said(seen, "whole", "threshold_crossed")[0]
    assert {"source": "poll"} in said(seen, "whole", "alarm_raised")
    assert 0 < seen.values["whole_threshold"] - crossed["available"] < 24 * MIB


def test_what_ignores_sigterm_or_leaves_its_session_goes_too(seen: GuestResult) -> None:
    """The leak is two processes, one of them an orphan in a session of its own; both had to be killed."""
    assert len(seen.values["whole_before"]["kubepods/besteffort/podleak"]) == 2
    ended = next(values for values in said(seen, "whole", "container_finished") if values["pod"] == "default/leak")
    assert ended["exit_code"] == 137
    assert said(seen, "whole", "pod_cleaned_up")[0]["pod"] == "default/leak"


def test_the_kernel_is_told_what_to_spare(seen: GuestResult) -> None:
    """With CAP_SYS_RESOURCE scores below 0 are possible, so nothing about that is missing; the agent is the last."""
    capacity = said(seen, "whole", "threshold_crossed")[0]["capacity"]
    scores = {place: set(pids.values()) for place, pids in seen.values["whole_before"].items()}
    assert scores == {
        "kubepods/podcalm": {-997},
        "kubepods/burstable/podbusy": {1000 - 1000 * 16 * MIB // capacity},
        "kubepods/burstable/podpair": {1000 - 1000 * 24 * MIB // capacity},
        "kubepods/besteffort/podleak": {1000},
    }
    assert seen.values["agent"] == ["0::/jettison/whole-agent", -999]
    assert said(seen, "whole", "agent_started")[0]["lacks"] == [POLLED]


def test_a_kill_by_the_kernel_is_attributed(seen: GuestResult) -> None:
    """A container at its own limit: memory.events of its own cgroup tells whose kill it was, and the status says so."""
    kills = [each for each in said(seen, "part", "out_of_memory_kill") if each["pod"] != "default/pair"]
    own = {"pod": "default/capped", "uid": "capped", "container": "main", "kills": 1}
    assert kills == [{**own, "process": "", "pid": None}]
    assert {"source": "oom"} in said(seen, "part", "alarm_raised")
    assert seen.values["capped"] == [["terminated", "OOMKilled", 137]]
    assert seen.values["part_phases"] == {
        "calm": "Running",
        "capped": "Failed",
        "pair": "Failed",
        "thrash": "Running",
    }
    # The kernel's own count: it kills the container as a whole, and so its one process twice.
    assert seen.values["part_kernel_kills"] in (1, 2)


def test_the_kernel_kills_a_container_as_a_whole(seen: GuestResult) -> None:
    """What hits the limit takes the rest with it, so that the container is restarted instead of hanging half dead."""
    assert seen.values["together"] == [[["terminated", "OOMKilled"]], 2, 0]


def test_unless_it_is_told_to_kill_one_process_at_a_time(seen: GuestResult) -> None:
    """singleProcessOOMKill: the container goes on without its child."""
    assert seen.values["apart"] == [[["running", ""]], 1, 1]


def test_stalling_rings_the_pressure_alarm(seen: GuestResult) -> None:
    """A container that caches more than it may stalls without bringing the node near its threshold: only PSI tells."""
    assert {"source": "psi"} in said(seen, "part", "alarm_raised")
    assert not said(seen, "part", "threshold_crossed")


def test_a_pressure_trigger_gets_the_window_it_asks_for(seen: GuestResult) -> None:
    """Half a second, where without CAP_SYS_RESOURCE it would be two; and it is silent while nothing stalls."""
    assert seen.values["trigger"] == [50_000, 500_000]
    assert seen.values["is_silent_when_calm"]


def test_a_node_smaller_than_its_machine_is_limited(seen: GuestResult) -> None:
    """What it has is what its cgroup may use."""
    assert seen.values["part_limits"] == [str(128 * MIB)] * 2


def test_nothing_is_left_of_the_nodes(seen: GuestResult) -> None:
    """Neither a cgroup of theirs nor one of the agent's."""
    assert seen.values["whole_left"] == []
    assert seen.values["part_left"] == []


def test_a_whole_tree_is_ended_by_cgroup_kill(seen: GuestResult) -> None:
    """Four processes: deaf, in another session, orphaned, and frozen in a cgroup further down."""
    assert seen.values["tree"] == 4
    assert seen.values["tree_by_kill"]
    assert seen.values["tree_survivors"] == 0
    assert seen.values["tree_exit"] == -9
    assert seen.values["tree_populated"] == 0
