"""Containers whose cgroups a real systemd makes: containerd with `SystemdCgroup = true`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.containerd import IMAGE, PAUSE, Containerd, programs
from tests.live.debian import GuestUnavailableError
from tests.live.node import MI, LiveNode, pod
from tests.live.private_systemd import SYSTEMD, PrivateSystemd, private_systemd

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has namespaces and cgroups for it"),
    pytest.mark.skipif(not SYSTEMD.exists(), reason="systemd is not installed"),
    pytest.mark.timeout(180),
]

SLEEP = "trap 'exit 0' TERM; sleep 3600 & wait"
LIMITS = {"resources": {"limits": {"memory": "100Mi", "cpu": "500m"}, "requests": {"memory": "64Mi"}}}


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[PrivateSystemd]:
    home = tmp_path / "systemd"
    home.mkdir()
    with private_systemd(home) as found:
        yield found


@pytest.fixture
def containerd(systemd: PrivateSystemd, tmp_path: Path) -> Iterator[Containerd]:
    try:
        programs()
    except GuestUnavailableError as error:
        pytest.skip(f"no containerd: {error}")
    found = Containerd(tmp_path / "c", uses_systemd=True, launcher=systemd.as_scope("containerd"))
    found.start()
    found.load(PAUSE, ["/bin/sleep", "2147483647"])
    found.load(IMAGE, ["/bin/sh"])
    yield found
    found.clear()


def box(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """A pod with one container of busybox."""
    found = pod(name, ["/bin/sh", "-c", script], **spec)
    found["spec"]["containers"][0]["image"] = IMAGE
    return found


def _uid(node: LiveNode, name: str) -> str:
    """As slices are called after it."""
    found = (each["document"]["metadata"] for each in node.records())
    return next(str(each["uid"]) for each in found if each["name"] == name).replace("-", "_")


def test_slices_of_pods_are_units_with_their_limits_until_the_pods_end(
    systemd: PrivateSystemd, containerd: Containerd, tmp_path: Path
) -> None:
    """systemd sets every slice above a new scope to what it knows of it; a limit that it was not told of would be gone.

    And a pod that fills the node goes as from any other cgroup.
    """
    (tmp_path / "node").mkdir()
    program = str(Path(sys.executable).with_name("jettison"))
    flags = ["--cri-endpoint", containerd.endpoint, "--node-memory", "256Mi"]
    node = LiveNode(
        tmp_path / "node",
        flags,
        launcher=[*systemd.as_scope("jettison"), program],
        config={"evictionHard": {"memory.available": "100Mi"}},
    )
    top = f"jettison-{node.name.replace('-', '_')}"
    kubepods = f"{top}-kubepods"
    node.write(box("calm", SLEEP, container=LIMITS))
    node.start()
    node.wait(lambda: node.pids("calm") or node.facts("container_started"), "the pod to run")
    uid = _uid(node, "calm")
    slices = [
        f"{top}.slice",
        f"{kubepods}.slice",
        f"{kubepods}-burstable.slice",
        f"{kubepods}-burstable-pod{uid}.slice",
    ]

    def limits() -> list[str]:
        directories = [Path("/sys/fs/cgroup/memory/jettison.slice", *slices[: end + 1]) for end in range(len(slices))]
        return systemd.tell("cat", *(f"{each}/memory.limit_in_bytes" for each in directories)).split()

    def told(unit: str) -> str:
        return systemd.tell("systemctl", "show", "-P", "MemoryMax", unit).strip()

    assert {*slices, f"{kubepods}-besteffort.slice", "jettison.slice"} == systemd.slices()
    assert [told(unit) for unit in slices] == [str(256 * MI), str(256 * MI), "infinity", str(100 * MI)]
    assert len([each for each in systemd.scopes() if each.startswith("cri-containerd-")]) == 2
    before = limits()
    assert [before[0], before[1], before[3]] == [str(256 * MI), str(256 * MI), str(100 * MI)]
    systemd.tell("systemctl", "daemon-reload")
    assert limits() == before

    # More than the threshold, less than the node has: the kernel's own killer is not needed.
    node.write(
        box(
            "leak",
            f"sleep 2; dd if=/dev/zero of=/memory/data bs=1M count=180; {SLEEP}",
            container={"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]},
            volumes=[{"name": "memory", "emptyDir": {"medium": "Memory"}}],
        )
    )
    node.wait(lambda: node.evicted() == ["leak"] and "leak" in node.verdicts(), "the leak to go")
    node.wait(lambda: len(systemd.slices()) == 6, "the slice of the leak to go")
    assert not [fact for fact in node.facts("action_failed") if "systemd" in fact["what"]]

    # An agent that finds no runtime at its start takes up the slices of the last one, and the runtime comes later.
    node.kill()
    containerd.kill()
    node.wait(lambda: not containerd.socket.exists() and "jettison.scope" not in systemd.scopes(), "both to end")
    node.start()
    node.wait(lambda: node.facts("agent_started")[1:], "the next agent")
    assert f"{kubepods}-burstable-pod{uid}.slice" in systemd.slices()
    # Its scope is there as long as the shims.
    containerd.launcher = systemd.as_scope("containerd-again")
    containerd.start()
    node.write(box("late", SLEEP, container=LIMITS))

    def started() -> list[str]:
        return [str(fact["pod"]) for fact in node.facts("container_started")]

    node.wait(lambda: "default/late" in started(), "a pod after that")
    assert started().count("default/calm") == 1
    assert f"{kubepods}-burstable-pod{_uid(node, 'late')}.slice" in systemd.slices()
    node.stop()
    node.wait(lambda: node.facts("agent_stopped"), "the agent to end")
    node.wait(lambda: not systemd.slices(), "the slices to go")
