"""From the command line to the process that stays: what is handed over, how, and what is left out on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from jettison.controllers.settings import ControllerSettings
from jettison.engine.budgets.budget import BETTER
from jettison.engine.config.policy import Policy
from jettison.engine.scheduling.placement import Taint
from jettison.errors import InputError
from jettison.node.cluster_settings import ClusterSettings, MemberSettings, Settings
from jettison.node.process.handover import TO, decode_settings, encode_settings
from jettison.node.settings import NodeSettings
from tests.cli.running import process
from tests.live.node import LiveNode

LEAN = """
import sys
from jettison.node.process.entry import load_lean
load_lean()
import jettison.node.process.handover
import jettison.node.guarding, asyncio, hashlib
print(*sorted({"ssl", "_ssl", "_hashlib", "typing_extensions", "click", "yaml"} & sys.modules.keys()))
asyncio.run(asyncio.sleep(0))
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c44298fc1c14")
import ssl
ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""


def test_an_agent_with_everything_loaded_has_neither_openssl_nor_click() -> None:
    """A probe over HTTPS can still load OpenSSL."""
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\n"


@pytest.mark.parametrize(("arguments", "code"), [(("--help",), 0), (("--no-such",), 2), (("--node-memory", "x"), 2)])
def test_without_settings_nothing_is_executed_again(arguments: tuple[str, ...], code: int) -> None:
    done = process("up", *arguments)
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).startswith("Usage: " if code == 0 else "error: ")


NODE = NodeSettings(
    "n1",
    Path("/state"),
    Path("/node"),
    "own/place",
    2**29,
    300,
    uses_cgroups=False,
    policy=Policy.of({"evictionHard": {"memory.available": "5%"}, "maxPods": 7}, "improved"),
    manifests=(Path("/pods"),),
    labels={"disk": "ssd"},
    taints=(Taint("only", "", "NoSchedule"),),
    readmits=True,
    listen=("::1", 80),
    is_verbose=True,
)
PLAIN = NodeSettings("n1", Path("/state"))


@pytest.mark.parametrize(
    "settings",
    [
        NODE,
        PLAIN,
        MemberSettings(NODE, "/etc/kubeconfig", "prod", "10.0.0.7", 4000),
        ClusterSettings(
            Path("/state"),
            ("127.0.0.1", 6443),
            (PLAIN.for_node("n1-1"), PLAIN.for_node("n1-2")),
            ("far",),
            frozenset({"scheduler"}),
            ControllerSettings(7, 8, BETTER),
        ),
    ],
    ids=["node", "defaults", "member", "cluster"],
)
def test_settings_arrive_as_they_were_given(settings: Settings) -> None:
    found = decode_settings(encode_settings(settings))
    for field in fields(settings):
        assert getattr(found, field.name) == getattr(settings, field.name), field.name
    assert type(found) is type(settings)


def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="is not UTF-8"):
        encode_settings(NodeSettings("n1", Path("/state"), manifests=(Path("/pods/\udcff"),)))


def test_manifests_belong_to_one_node() -> None:
    done = process("up", "--nodes", "2", "--manifests", "pods")
    assert done.returncode == 2
    assert "with --nodes, pods come from the API" in done.stderr
    alone = process("up", "--evicted-pod-limit", "3")
    assert (alone.returncode, "which --nodes begins" in alone.stderr) == (2, True)


@pytest.mark.parametrize("command", [("up", "--nodes", "2"), ("node",)])
def test_a_member_does_not_label_itself_as_administrators_do(command: tuple[str, ...]) -> None:
    done = process(*command, "--node-label", "team=a", "--node-label", "node-role.kubernetes.io/x=")
    said = "--node-label: a node of a cluster may not label itself `node-role.kubernetes.io/x`: under kubernetes.io"
    assert (done.returncode, said in done.stderr) == (2, True)


def test_a_reload_gets_the_settings_and_nothing_is_run(tmp_path: Path) -> None:
    """As an agent asks for them: in a file of its own, while everything that is said goes to the usual streams."""
    descriptor = os.memfd_create("test")
    command = [sys.executable, "-m", "jettison", "up", "--state-dir", str(tmp_path), "--node-name", "n1", "--readmit"]
    environment = {**os.environ, TO: str(descriptor)}
    done = subprocess.run(
        command, env=environment, pass_fds=(descriptor,), capture_output=True, text=True, timeout=60, check=False
    )
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        found = decode_settings(file.read())
    assert done.returncode == 0, done.stderr
    assert isinstance(found, NodeSettings)
    assert (found.node_name, found.readmits, found.node_dir) == ("n1", True, tmp_path / "node" / "n1" / "files")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_second_start_waits_until_it_is_understood(tmp_path: Path, which: signal.Signals) -> None:
    """Sent as soon as the process is another program; it ends as if it had been told later."""
    node = LiveNode(tmp_path, ["--no-cgroups"], starts_quickly=False)
    node.start()
    assert node.process is not None
    pid = node.process.pid
    node.wait(lambda: b"JETTISON_SETTINGS_FROM" in Path(f"/proc/{pid}/environ").read_bytes(), "the second start")
    os.kill(pid, which)
    assert node.process.wait(30) == 0
    assert "Traceback" not in node.log.read_text()


def test_a_hangup_during_the_start_ends_nothing(tmp_path: Path) -> None:
    node = LiveNode(tmp_path, ["--no-cgroups"], starts_quickly=False)
    node.start()
    assert node.process is not None
    blocked = 1 << (signal.SIGHUP - 1)

    def mask() -> int:
        assert node.process is not None
        status = Path(f"/proc/{node.process.pid}/status").read_text()
        return int(status.partition("SigBlk:")[2].split()[0], 16)

    node.wait(lambda: mask() & blocked, "the first start")
    node.process.send_signal(signal.SIGHUP)
    node.wait(lambda: node.facts("agent_started"), "the agent")
    assert node.process.poll() is None
    node.stop()
