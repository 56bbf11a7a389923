"""What processes can write to: their own places, and of the host's files those that a volume opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.node import LiveNode, pod

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has mounts of its own"),
    pytest.mark.timeout(300),
]

NAME = f"jettison-test-{os.getpid()}"
NEW = tuple(f"{place}/{NAME}" for place in ("/opt", "", "/var/lib"))
HOST = (*NEW, "/etc/hostname")
# Prints the places that can be written to. `exec` first: a shell that cannot open a file for a plain command goes on.
TRY = 'for at in $PLACES; do (exec >> "$at") 2>/dev/null && echo "$at"; done'
OWN = ("own", "$(TMPDIR)/x", "/tmp/x", "/var/tmp/x")
PLACES = (*HOST, *OWN, "/data/x", "/kept/x", f"/dev/shm/{NAME}", "/dev/null")
LOOKERS = ("main", "hook", "probe")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    """Whose directory lies below /tmp, as those of a user that tries it may."""
    for name in ("data", "kept", "report"):
        (tmp_path / name).mkdir()
    found = LiveNode(tmp_path, ["--node-memory", "256Mi"])
    yield found
    found.stop()
    Path(f"/dev/shm/{NAME}").unlink(missing_ok=True)


def writer(node: LiveNode, name: str = "writer", **container: Any) -> dict[str, Any]:
    """A pod that reports where it can write to: itself, its hook, and its probe."""
    look = {
        looker: f"({TRY}) > /report/{looker}.new; mv -n /report/{looker}.new /report/{looker}" for looker in LOOKERS
    }
    paths = {"data": False, "kept": True, "report": False}
    mounts = [{"name": each, "mountPath": f"/{each}", "readOnly": is_closed} for each, is_closed in paths.items()]
    return pod(
        name,
        ["sh", "-c", f"{look['main']}; exec sleep 3600"],
        volumes=[{"name": each, "hostPath": {"path": str(node.directory / each)}} for each in paths],
        container={
            "env": [{"name": "PLACES", "value": " ".join(PLACES)}],
            "volumeMounts": mounts,
            "readinessProbe": {"exec": {"command": ["sh", "-c", look["probe"]]}, "periodSeconds": 1},
            "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", look["hook"]]}}},
            **container,
        },
    )


def reported(node: LiveNode, looker: str) -> set[str]:
    report = node.directory / "report" / looker
    node.wait(report.exists, f"the report of the {looker}")
    return told(report.read_text())


def told(report: str) -> set[str]:
    """Without the path of its own directory."""
    return {Path(line).name if "/containers/" in line else line for line in report.split()}


@pytest.mark.parametrize("security", [{}, {"privileged": True}], ids=["plain", "privileged"])
def test_a_process_writes_to_its_own_places_only(node: LiveNode, security: dict[str, Any]) -> None:
    """And so do its hook, its probe and commands in it, also after the agent was killed."""
    node.write(writer(node, securityContext=security))
    node.start()
    expected = {"own", "x", "/tmp/x", "/var/tmp/x", "/data/x", f"/dev/shm/{NAME}", "/dev/null"}
    for looker in LOOKERS:
        assert reported(node, looker) == expected
    node.kill()
    node.start()
    node.wait(lambda: node.facts("agent_started")[1:], "the next agent")
    node.wait(lambda: node.command("exec", "writer", "--", "true").returncode == 0, "a command in it")
    assert told(node.command("exec", "writer", "--", "sh", "-c", TRY).stdout) == expected
    assert (node.directory / "data" / "x").is_file()
    assert not any(Path(path).exists() for path in (*NEW, f"/dev/shm/{NAME}"))


def test_the_containers_of_a_pod_share_memory_of_its_own(node: LiveNode) -> None:
    """Unless a volume is in its place, or the pod wants that of the host."""
    writer = {"name": "writer", "command": ["sh", "-c", f"touch /dev/shm/{NAME}"]}

    def reader(name: str, mount: str, **spec: Any) -> dict[str, Any]:
        """It tells the device, the rights, and what is there."""
        return pod(
            name,
            ["sh", "-c", "stat -c '%d %a' /dev/shm; ls -A /dev/shm; exec sleep 3600"],
            container={
                "volumeMounts": [{"name": "v", "mountPath": mount}],
                "securityContext": {"readOnlyRootFilesystem": name == "sealed"},
            },
            **{"initContainers": [writer], "volumes": [{"name": "v", "emptyDir": {}}], **spec},
        )

    def seen(name: str) -> list[str]:
        node.wait(lambda: node.command("logs", name, "-c", "main").stdout.split()[1:], f"what {name} sees")
        return node.command("logs", name, "-c", "main").stdout.split()

    node.write(
        reader("own", "/data"),
        reader("above", "/dev/shm/below"),
        reader("volume", "/dev/shm"),
        reader("sealed", "/data"),
        reader("none", "/data", initContainers=[]),
    )
    node.start()
    host = str(Path("/dev/shm").stat().st_dev)
    assert (seen("own")[1:], seen("none")[1:], seen("sealed")[1:]) == (["1777", NAME], ["1777"], ["1777", NAME])
    assert sorted(seen("above")[1:]) == sorted(["1777", NAME, "below"])
    assert seen("volume")[1:] == ["777"]
    assert host not in {seen(name)[0] for name in ("own", "above", "volume", "sealed", "none")}
    node.write(reader("host", "/data", hostIPC=True))
    assert seen("host")[0] == host
    assert NAME in seen("host")


def test_a_process_that_fails_for_it_says_so(node: LiveNode) -> None:
    """And one that fails for something else does not."""
    node.write(
        pod("database", ["sh", "-c", "exec mkdir /var/lib/none"], restartPolicy="Never"),
        pod("other", ["sh", "-c", "echo no such thing; exit 3"], restartPolicy="Never"),
    )
    node.start()
    node.wait(lambda: len(node.facts("container_finished")) == 2, "both to fail")
    said = {fact["pod"]: fact.get("message", "") for fact in node.facts("container_finished")}
    assert "a hostPath volume opens a directory of them" in said["default/database"]
    assert not said["default/other"]
    assert "Read-only file system" in node.command("logs", "database").stdout
    assert "read-only to processes" in node.command("why", "database").stdout


def test_an_operator_may_open_them(node: LiveNode) -> None:
    node.flags = [*node.flags, "--host-files", "writable"]
    try:
        node.write(writer(node))
        node.start()
        assert reported(node, "main") >= set(HOST)
    finally:
        for path in NEW:
            Path(path).unlink(missing_ok=True)
