"""The process that stays: what it leaves out, and how it gets its orders. In processes of their own, for good."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jettison.engine.scheduling.taints import Taint
from jettison.node.orders import AnyOrders, ClusterOrders, JoinOrders, Orders, decode_orders, encode_orders
from jettison.runtimes.host.settings import HostSettings
from tests.cli.running import process

LEAN = """
import sys
from jettison.cli.resident import load_lean
load_lean()
import jettison.node.guard, asyncio, hashlib
print(*sorted({"ssl", "_ssl", "_hashlib", "typing_extensions", "click"} & sys.modules.keys()))
asyncio.run(asyncio.sleep(0))
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c44298fc1c14")
import ssl
ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""

UNTYPED = """
import jettison.node.guard
from jettison.cli.resident import forget_annotations
from jettison.engine.pods.pod import Pod
from jettison.manifests.pods import PodDocument, pod_from
forget_annotations()
print(pod_from.__annotations__, Pod.__init__.__annotations__, len(Pod.__annotations__) > 10)
print(pod_from({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}))
"""


def test_an_agent_with_everything_loaded_has_neither_openssl_nor_click() -> None:
    """And OpenSSL can still be had by whoever needs it."""
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\n"


def test_functions_forget_their_types_and_values_do_not() -> None:
    done = subprocess.run([sys.executable, "-c", UNTYPED], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "{} {} True\n/p\n", done.stderr


@pytest.mark.parametrize(("arguments", "code"), [(("--help",), 0), (("--no-such",), 2), (("--node-memory", "x"), 2)])
def test_without_orders_the_childs_words_are_the_last(arguments: tuple[str, ...], code: int) -> None:
    done = process("up", *arguments)
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).startswith("Usage: " if code == 0 else "error: ")


def _orders(settings: HostSettings) -> Orders:
    return Orders(
        settings,
        {"kubeletConfiguration": {"evictionHard": {"memory.available": "5%"}}},
        [Path("/pods")],
        [],
        {"disk": "ssd"},
        [Taint("only", "", "NoSchedule")],
        readmits=True,
        is_dry_run=False,
        listen=("::1", 80),
        is_verbose=True,
    )


ORDERS = _orders(HostSettings("n1", Path("/state"), Path("/node"), "own/place", 2**29, 300, uses_cgroups=False))


@pytest.mark.parametrize(
    "orders",
    [
        ORDERS,
        JoinOrders(ORDERS, "/etc/kubeconfig", "prod", "10.0.0.7"),
        ClusterOrders([ORDERS.for_node("n1-1"), ORDERS.for_node("n1-2")], ("127.0.0.1", 6443), evicted_pods=7),
    ],
)
def test_orders_arrive_as_they_were_given(orders: AnyOrders) -> None:
    assert decode_orders(encode_orders(orders)) == orders


def test_several_nodes_share_nothing_but_their_size() -> None:
    first, second = (ORDERS.for_node(name).settings for name in ("a", "b"))
    assert (first.node_dir, first.node_cgroup) == (Path("/node/a"), "own/place/a")
    assert {first.node_dir, first.node_cgroup, first.records_dir}.isdisjoint(
        {second.node_dir, second.node_cgroup, second.records_dir}
    )
    assert first.node_memory == second.node_memory == 2**29
    usual = _orders(HostSettings("n1", Path("/state"), Path("/state/node/n1/files"))).for_node("a").settings
    assert (usual.node_dir, usual.node_cgroup) == (Path("/state/node/a/files"), "jettison/a")


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


def test_control_c_is_no_mishap_however_early(tmp_path: Path) -> None:
    for number, delay in enumerate((0.2, 0.3, 0.4, 0.5, 0.6, 0.7)):
        command = (sys.executable, "-m", "jettison", "up", "--no-cgroups", "--state-dir", str(tmp_path / str(number)))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            time.sleep(delay)
            running.send_signal(signal.SIGINT)
            _, complaint = running.communicate(timeout=60)
        # Before that the interpreter itself is interrupted, and says so.
        assert "resident.py" not in complaint, (delay, complaint)
