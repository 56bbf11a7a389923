"""`jettison doctor`: on this machine for real, and on made-up ones for what this machine is not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jettison.node.upkeep.diagnosis import Check, Machine, State
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.processes import Capability, lowest_oom_score_adj, read_capabilities
from tests.cli.guarded import Guarded, as_nobody
from tests.cli.running import process, run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


def checks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By name; a node's notes come after its state and do not count."""
    found: dict[str, dict[str, Any]] = {}
    for check in document["checks"]:
        found.setdefault(check["name"], check)
    return found


def test_the_exit_code_says_whether_something_is_degraded(tmp_path: Path) -> None:
    done = process("doctor", "--state-dir", str(tmp_path), "-o", "json")

    document = json.loads(done.stdout)
    states = {check["state"] for check in document["checks"]}
    assert done.stderr == ""
    assert document["degraded"] is ("degraded" in states)
    assert done.returncode == int(document["degraded"])


def test_what_it_says_of_this_machine_is_true(tmp_path: Path) -> None:
    document = json.loads(run("doctor", "--state-dir", str(tmp_path), "-o", "json").stdout)

    version = discover().version
    assert (document["version"], document["kind"]) == (1, "Diagnosis")
    assert document["cgroups"]["version"] == (None if version is None else version.value)
    missing = read_capabilities().missing
    assert document["missingCapabilities"] == [f"CAP_{each.name}" for each in missing]
    lowest = lowest_oom_score_adj()
    assert (checks(document)["oom"]["state"] == "ok") is (lowest is not None and lowest <= -997)
    assert checks(document)["node"]["state"] == "note"


def test_people_get_it_in_lines_with_what_to_do(tmp_path: Path) -> None:
    shown = run("doctor", "--state-dir", str(tmp_path)).stdout.splitlines()

    assert shown[0].startswith("Linux ")
    words = {line.split()[0] for line in shown[2:]}
    assert words <= {"ok", "degraded", "note", "→"}
    degraded = [place for place, line in enumerate(shown) if line.startswith("degraded")]
    assert all(shown[place + 1].split()[0] == "→" for place in degraded)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """It only asks: no cgroup, no file."""
    tree = discover().holding("memory")
    before = [] if tree is None else sorted(path.name for path in tree.mount_point.iterdir() if "doctor" in path.name)
    run("doctor", "--state-dir", str(tmp_path))

    after = [] if tree is None else sorted(path.name for path in tree.mount_point.iterdir() if "doctor" in path.name)
    assert before == after == []
    assert list(tmp_path.iterdir()) == []


def test_a_node_with_its_agent(guarded: Guarded) -> None:
    found = checks(json.loads(guarded.here("doctor", "-o", "json").stdout))

    assert (found["node"]["state"], found["node"]["finding"]) == ("ok", f"the agent of node `{guarded.name}` is well")


def test_a_node_without_an_agent(unguarded: Guarded) -> None:
    done = unguarded.here("doctor", "-o", "json")

    assert done.exit_code == 1
    found = checks(json.loads(done.stdout))["node"]
    assert found["state"] == "degraded"
    assert found["finding"] == f"no agent runs for node `{unguarded.name}`, and its 4 pods are not guarded"
    assert found["remedy"] == f"jettison up --node-name {unguarded.name} …"


def test_a_node_that_does_not_exist(tmp_path: Path) -> None:
    done = run("doctor", "--state-dir", str(tmp_path), "--node-name", "moon")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: there is no node `moon` in `{tmp_path}`")


@needs_root
def test_another_user_learns_what_it_may_not(guarded: Guarded) -> None:
    done = as_nobody("doctor", *guarded.where, "-o", "json")

    document = json.loads(done.stdout)
    found = checks(document)
    assert done.returncode == 1
    assert document["machine"].endswith("as user 65534")
    assert document["cgroups"]["usable"] is False
    assert document["alarm"]["source"] != "memory threshold events"
    assert {name for name in ("cgroups", "killing", "oom", "volumes") if found[name]["state"] == "degraded"} == {
        "cgroups",
        "killing",
        "oom",
        "volumes",
    }
    assert set(document["missingCapabilities"]) == {f"CAP_{capability.name}" for capability in Capability}
    assert found["node"]["state"] == "degraded"


class MadeUp:
    """A machine in a temporary directory: mounts, capabilities and cgroups as files."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "cgroup"
        self.proc = directory / "proc"
        (self.proc / "self").mkdir(parents=True)
        self.root.mkdir()
        (self.proc / "self" / "cgroup").write_text("0::/\n")
        (self.proc / "self" / "oom_score_adj").write_text("0\n")
        self.mounts = ""
        self.mount()
        self.may("ffffffffffffffff")

    def mount(self, *mounts: tuple[str, str, str]) -> None:
        """Each a name below the root, a type and options; as the kernel lists them."""
        lines = [
            f"{number} 1 0:{number} / {self.root / name} rw - {kind} none rw,{options}"
            for number, (name, kind, options) in enumerate(mounts, 30)
        ]
        for name, _, _ in mounts:
            (self.root / name).mkdir(exist_ok=True)
        (self.proc / "self" / "mountinfo").write_text("\n".join(lines) + "\n")

    def may(self, mask: str) -> None:
        (self.proc / "self" / "status").write_text(f"Name:\tx\nCapEff:\t{mask}\n")

    def check(self, name: str) -> Check:
        return next(check for check in Machine(self.root, self.proc).checks() if check.name == name)


@pytest.fixture
def machine(tmp_path: Path) -> MadeUp:
    return MadeUp(tmp_path)


def test_no_cgroups_at_all(machine: MadeUp) -> None:
    found = machine.check("cgroups")
    assert (found.state, found.remedy) == (State.DEGRADED, "mount cgroup2")


def test_no_memory_controller(machine: MadeUp) -> None:
    machine.mount(("pids", "cgroup", "pids"))
    found = machine.check("cgroups")
    assert found.finding.startswith("version 1, without the memory controller")
    assert found.remedy == "start the kernel with cgroup_enable=memory"


def test_version_2_with_everything(machine: MadeUp) -> None:
    machine.mount((".", "cgroup2", ""))
    (machine.root / "cgroup.controllers").write_text("cpu memory pids\n")
    assert machine.check("cgroups") == Check("cgroups", State.OK, "version 2")
    assert machine.check("oom").state is State.OK
    assert not any(check.name in ("limits", "volumes") for check in Machine(machine.root, machine.proc).checks())


def test_a_controller_that_is_not_passed_on(machine: MadeUp) -> None:
    machine.mount((".", "cgroup2", ""))
    (machine.root / "cgroup.controllers").write_text("memory\n")
    found = machine.check("limits")
    assert (found.state, found.finding) == (
        State.DEGRADED,
        "no controller cpu, pids: what it would limit is not limited",
    )


def test_a_kernel_without_pressure_information(machine: MadeUp) -> None:
    """Then memory is polled, which is slower far from a threshold and no worse close to it."""
    machine.mount((".", "cgroup2", ""))
    (machine.root / "cgroup.controllers").write_text("cpu memory pids\n")
    found = machine.check("alarm")
    assert found.state is State.DEGRADED
    assert found.finding.startswith("polling: every 20 ms to 10 s")
    assert "psi=1" in found.remedy


def test_without_the_one_capability(machine: MadeUp) -> None:
    mask = (1 << 64) - 1 - (1 << Capability.SYS_RESOURCE)
    machine.may(f"{mask:016x}")
    found = machine.check("oom")
    assert found.state is State.DEGRADED
    assert "CAP_SYS_RESOURCE" in found.remedy
