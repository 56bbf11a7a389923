from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from jettison.runtimes.host.cgroups.families import MARK, Families
from jettison.runtimes.host.cgroups.places import ProcessGroups
from tests.builders import GI, pod
from tests.runtimes.host.nodes import SLEEPS, end, is_alive, python, reap, running, stop

# Leaves the session and its parents; what it was started with stays in its environment.
LOST = python("""
pid = os.fork()
if pid == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.waitpid(pid, 0)
""")
# Starts a program with nothing in its environment.
STRIPPED = python("""
if os.fork() == 0:
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], {})
time.sleep(0.2)
""")
# Lives on in another thread.
HEADLESS = python("""
import ctypes, threading
threading.Thread(target=time.sleep, args=(60,)).start()
os.write(1, b"r")
ctypes.CDLL(None).pthread_exit(None)
""")


def test_a_daemon_that_lost_its_parents_is_known_by_its_mark(tmp_path: Path) -> None:
    groups = ProcessGroups(Families("here"), GI)
    place = groups.of_container(pod(), "c")
    with running(place, LOST) as pid:
        assert len(place.processes()) == 2
        # An agent that comes later has been told of no process.
        later = ProcessGroups(Families("here"), GI)
        assert later.of_container(pod(), "c").processes() == place.processes()
        assert later.found().keys() == {"a"}
        assert later.found()["a"].processes() == place.processes()
        assert pid in place.processes()


def test_a_child_without_environment_is_known_by_its_parents() -> None:
    place = ProcessGroups(Families("here"), GI).of_container(pod(), "c")
    with running(place, STRIPPED):
        assert len(place.processes()) == 2


def test_another_node_or_another_pod_is_not_ours() -> None:
    here = ProcessGroups(Families("here"), GI)
    place = here.of_container(pod("a"), "c")
    with running(place, SLEEPS) as pid:
        assert ProcessGroups(Families("there"), GI).found() == {}
        assert here.of_container(pod("a"), "d").processes() == frozenset()
        assert here.of_pod(pod("aa")).processes() == frozenset()
        assert here.of_pod(pod("a")).processes() == {pid}


def test_we_are_never_in_a_family_of_our_own() -> None:
    families = Families("here")
    families.lead("poda/c", os.getpid())
    assert os.getpid() not in {process.pid for process in families.members("poda")}


def test_a_number_that_was_given_to_another_process_is_not_followed() -> None:
    families = Families("here")
    stranger = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
    try:
        families.lead("poda/c", stranger.pid)
        born, family = families._ancestors[stranger.pid]
        families._ancestors[stranger.pid] = (born - 1, family)  # as if it had been another process then
        assert families.members("poda") == ()
        assert families.kill("poda") == frozenset()
        assert is_alive(stranger.pid)
    finally:
        stop(stranger)


def test_a_dead_ancestor_is_forgotten_with_its_family() -> None:
    families = Families("here")
    place = ProcessGroups(families, GI).of_container(pod(), "c")
    with running(place, SLEEPS):
        end(place)
        assert families.members("poda") == ()
        assert families._ancestors == {}


def test_a_zombie_is_no_process(tmp_path: Path) -> None:
    place = ProcessGroups(Families("here"), GI).of_container(pod(), "c")
    with running(place, SLEEPS) as pid:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert place.processes() == frozenset()
        assert place.remove()
        reap(pid)


def test_a_process_whose_first_thread_has_ended_is_killed() -> None:
    place = ProcessGroups(Families("here"), GI).of_container(pod(), "c")
    with running(place, HEADLESS) as pid:
        stat = Path(f"/proc/{pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        assert place.processes() == {pid}
        end(place)
        assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None


def test_a_quick_census_finds_what_came_since_the_last_and_passes_over_strangers() -> None:
    groups = ProcessGroups(Families("here"), GI)
    first, second = (groups.of_container(pod(), name) for name in "cd")
    with running(first, SLEEPS) as one:
        assert groups.families.census().keys() == {"poda/c"}
        with running(second, LOST) as two:
            found = groups.families.census(is_quick=True)
            assert [process.pid for process in found["poda/c"]] == [one]
            assert two in {process.pid for process in found["poda/d"]}
            assert len(found["poda/d"]) == 2
            assert os.getppid() in groups.families._strangers
        assert groups.families.census(is_quick=True).keys() == {"poda/c"}


def test_the_mark_is_a_variable_with_realm_and_name() -> None:
    assert Families("/var/lib/x").mark("poda/c") == {MARK: "/var/lib/x:poda/c"}
