"""Each measure on a real process; what this machine does not permit is told, not hidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.self_protection import LateImports
from jettison.errors import JettisonError
from jettison.runtimes.linux.processes import Capability, read_capabilities

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
may_lock = pytest.mark.skipif(
    not read_capabilities().has(Capability.IPC_LOCK), reason="locking memory takes CAP_IPC_LOCK"
)


def in_child(program: str) -> Any:
    """What the program says in JSON. A process of its own, because protection cannot be taken off."""
    code = f"import json, os, resource\nfrom pathlib import Path\nfrom jettison.agent import self_protection\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


STATUS = """
def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key + ":")).split()[1])
"""


@may_lock
def test_memory_is_locked_and_does_not_grow_by_it() -> None:
    before, after, locked, lack = in_child(f"""{STATUS}
before = status("VmRSS")
lack = self_protection.lock_memory()
print(json.dumps([before, status("VmRSS"), status("VmLck"), lack]))
""")

    assert lack is None
    # Everything mapped is marked, what is not in memory is not brought in.
    assert locked > after
    assert after - before < 1000


@may_lock
def test_what_is_allocated_later_is_locked_too() -> None:
    before, after = in_child(f"""{STATUS}
self_protection.lock_memory()
before = status("VmLck")
more = bytearray(50_000_000)
print(json.dumps([before, status("VmLck")]))
""")

    assert after - before > 45_000


@pytest.mark.parametrize("way", ["give_memory_back", "trim_heap"])
def test_what_was_needed_for_a_moment_is_given_back(way: str) -> None:
    """Also from the middle of the heap, whose end is still in use."""
    before, after = in_child(f"""{STATUS}
moment = [bytes(1000) for _ in range(20_000)]
del moment[:-1]
before = status("VmRSS")
self_protection.{way}()
print(json.dumps([before, status("VmRSS")]))
""")

    assert before - after > 10_000


@is_root
def test_memory_is_not_locked_within_a_limit_that_would_make_allocations_fail() -> None:
    lack, size = in_child("""
os.setgroups([]); os.setgid(65534); os.setuid(65534)
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
lack = self_protection.lock_memory()
print(json.dumps([lack, len(bytearray(50_000_000))]))
""")

    assert lack == "memory is not locked: no CAP_IPC_LOCK, and at most 65536 bytes may be locked without it"
    assert size == 50_000_000


def test_the_oom_score_goes_as_low_as_it_may() -> None:
    lack, score = in_child("""
Path("/proc/self/oom_score_adj").write_text("500")
lack = self_protection.lower_oom_score(-999)
print(json.dumps([lack, int(Path("/proc/self/oom_score_adj").read_text())]))
""")
    inherited = int(Path("/proc/self/oom_score_adj").read_text())

    if read_capabilities().has(Capability.SYS_RESOURCE):
        assert (lack, score) == (None, -999)
    else:
        # The floor is what a process with the capability set last; here that is at most what was inherited.
        assert score <= inherited
        assert lack == f"oom_score_adj is {score} instead of -999: no CAP_SYS_RESOURCE"


def test_a_score_that_is_permitted_is_taken_as_it_is() -> None:
    assert in_child("""
lack = self_protection.lower_oom_score(700)
print(json.dumps([lack, int(Path("/proc/self/oom_score_adj").read_text())]))
""") == [None, 700]


def test_descriptors_are_as_many_as_there_may_be() -> None:
    lack, limits = in_child("""
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 5000))
print(json.dumps([self_protection.raise_descriptor_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)]))
""")

    assert lack is None
    assert limits == [5000, 5000]


def test_too_few_descriptors_are_told() -> None:
    lack = in_child("""
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 300))
print(json.dumps(self_protection.raise_descriptor_limit()))
""")

    assert lack == "at most 300 files can be open, 4096 are enough for a thousand pods"


def test_what_is_loaded_is_no_longer_looked_through() -> None:
    frozen, before = in_child("""
import gc
before = len(gc.get_objects())
self_protection.freeze_garbage_collector()
print(json.dumps([gc.get_freeze_count(), before]))
""")

    assert frozen > 1000
    assert frozen > before * 0.9


def test_the_types_that_functions_name_are_forgotten_but_not_those_of_others() -> None:
    left = in_child("""
def of_another(some: int) -> None: ...
self_protection.forget_annotations()
print(json.dumps([list(each.__annotations__) for each in (self_protection.protect, of_another)]))
""")

    assert left == [[], ["some", "return"]]


def test_all_of_it_says_in_one_line_each_what_is_missing() -> None:
    lacks = in_child("print(json.dumps(self_protection.protect(-999)))")

    assert all("\\n" not in lack for lack in lacks)
    assert any("oom_score_adj" in lack for lack in lacks) != read_capabilities().has(Capability.SYS_RESOURCE)
    assert any("memory" in lack for lack in lacks) != read_capabilities().has(Capability.IPC_LOCK)


OWN = """
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
mounts = discover()
top = f"jettison-test-{os.environ['JETTISON_TEST_RUN']}-{os.getpid()}"
cgroup = Cgroup(mounts, f"{top}/agent")
own = self_protection.OwnCgroup(cgroup)
before = Path("/proc/self/cgroup").read_text()
"""


@is_root
def test_the_agent_has_a_cgroup_of_its_own_and_leaves_nothing_behind() -> None:
    found = in_child(f"""{OWN}
lack = own.enter()
inside = sorted(cgroup.processes()) == [os.getpid()]
left = own.leave()
is_left = cgroup.exists
Cgroup(mounts, top).remove()
print(json.dumps([lack, inside, left, is_left, Path("/proc/self/cgroup").read_text() == before]))
""")

    assert found == [None, True, None, False, True]


@is_root
def test_the_agent_goes_first_from_within_its_cgroup_and_what_it_starts_does_not() -> None:
    found = in_child(f"""{OWN}
own.enter()
lack = self_protection.go_first()
told = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
child = os.fork()
if child == 0:
    os._exit(os.sched_getscheduler(0))
childs = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
own.leave()
Cgroup(mounts, top).remove()
print(json.dumps([lack, told, childs]))
""")

    assert found == [None, os.SCHED_RR, os.SCHED_OTHER]


@is_root
def test_a_pod_that_may_not_go_first_is_told_so() -> None:
    lack = in_child("""
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps(self_protection.go_first()))
""")

    assert lack == "the agent has to wait for a processor like any process: operation not permitted"


@is_root
def test_where_there_can_be_no_cgroup_it_stays_where_it_is() -> None:
    lack, is_same = in_child(f"""{OWN}
os.setgroups([]); os.setgid(65534); os.setuid(65534)
lack = own.enter()
print(json.dumps([lack, Path("/proc/self/cgroup").read_text() == before]))
""")

    assert lack.startswith("the agent has no cgroup of its own: cannot create cgroup")
    assert is_same


def test_a_late_import_is_reported_once() -> None:
    reported: list[str] = []
    sys.modules.pop("this_is_no_module", None)

    with LateImports(reported.append) as guard:
        for _ in range(2):
            with pytest.raises(ImportError):
                __import__("this_is_no_module")
        __import__("os")

    assert reported == guard.names == ["this_is_no_module"]
    assert guard not in sys.meta_path


def test_a_late_import_that_is_allowed_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jettison_late.py").write_text("answer = 42")
    monkeypatch.syspath_prepend(str(tmp_path))
    reported: list[str] = []

    with LateImports(reported.append):
        module = __import__("jettison_late")

    assert module.answer == 42
    assert reported == ["jettison_late"]


def test_in_tests_a_late_import_fails() -> None:
    with LateImports(print, is_strict=True), pytest.raises(JettisonError, match="`this_is_no_module` is imported"):
        __import__("this_is_no_module")
