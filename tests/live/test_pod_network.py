"""Pods with a network of their own, by CNI: containerd and the agent in a network namespace of the test's.

The bridge, its addresses and its routes are in there, and nothing of this machine's network is touched.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live import containerd as live_containerd
from tests.live.containerd import IMAGE, Containerd, network_plugins
from tests.live.debian import GuestUnavailableError
from tests.live.node import LiveNode, pod

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("ip") is None,
    reason="a network namespace takes root, nsenter and ip",
)

SUBNET = ipaddress.ip_network("10.99.7.0/24")
BRIDGE = {
    "type": "bridge",
    "bridge": "pods0",
    "isGateway": True,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": str(SUBNET)}]]},
}
# Where libcni remembers what it has made, whatever the configuration says.
CACHE = Path("/var/lib/cni")


@contextmanager
def namespace() -> Iterator[list[str]]:
    """A network of its own with a loopback; yields the words that start a program in it."""
    program = "ip link set lo up && echo ready && exec sleep 3600"
    with subprocess.Popen(["unshare", "--net", "sh", "-c", program], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            if holder.stdout.readline() != b"ready\n":
                pytest.skip("this machine makes no network namespace")
            yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        finally:
            holder.kill()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """With a bridge for pods."""
    home = tmp_path_factory.mktemp("c")
    try:
        plugins = network_plugins()
    except GuestUnavailableError as why:
        pytest.skip(str(why))
    shutil.copytree(plugins, home / "cni")
    (home / "net.d").mkdir()
    ipam = {**BRIDGE, "ipam": {**BRIDGE["ipam"], "dataDir": str(home / "ipam")}}  # type: ignore[dict-item]
    config = {"cniVersion": "0.4.0", "name": "pods", "plugins": [ipam]}
    (home / "net.d" / "10-pods.conflist").write_text(json.dumps(config))
    was_there = CACHE.exists()
    with namespace() as words, live_containerd.running(home, launcher=words) as found:
        yield found
    if not was_there:
        shutil.rmtree(CACHE, ignore_errors=True)


def serving(name: str, **spec: Any) -> dict[str, Any]:
    """A web server that is ready when a page can be fetched from the pod's address."""
    probe = {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1, "timeoutSeconds": 5}
    hook = {"postStart": {"exec": {"command": ["/bin/sh", "-c", "echo hello > /data/index.html"]}}}
    command = ["/bin/sh", "-c", "echo $(cat /proc/sys/kernel/hostname); exec busybox httpd -f -p 8080 -h /data"]
    return pod(name, command, container={"image": IMAGE, "readinessProbe": probe, "lifecycle": hook}, **spec)


def shown(node: LiveNode, name: str) -> dict[str, Any]:
    pods = (node.ask("/pods") or {"items": []})["items"]
    return next((each["status"] for each in pods if each["metadata"]["name"] == name), {})


def is_ready(node: LiveNode, name: str) -> bool:
    return any(each["ready"] for each in shown(node, name).get("containerStatuses", ()))


def measured(node: LiveNode) -> dict[str, Any]:
    return {each["podRef"]["name"]: each for each in node.ask("/stats/summary")["pods"]}


def test_a_pod_has_an_address_and_is_probed_there(runtime: Containerd, tmp_path: Path) -> None:
    """A pod with the network of the host has none, and both survive the death of the agent."""
    launcher = [*runtime.launcher, str(Path(sys.executable).with_name("jettison"))]
    node = LiveNode(tmp_path, ["--cri-endpoint", runtime.endpoint], launcher=launcher)
    node.write(serving("web"), pod("hosted", ["/bin/sleep", "3600"], container={"image": IMAGE}, hostNetwork=True))
    node.start()
    try:
        node.wait(lambda: is_ready(node, "web") and is_ready(node, "hosted"), "both pods")
        assert "a network of its own for each pod" in node.log.read_text()
        address = shown(node, "web")["podIP"]
        assert ipaddress.ip_address(address) in SUBNET
        assert shown(node, "web")["podIPs"] == [{"ip": address}]
        assert "podIP" not in shown(node, "hosted")
        node.wait(lambda: {"web", "hosted"} <= measured(node).keys(), "a look at both")
        stats = measured(node)
        assert stats["web"]["network"]["name"] == "eth0"
        assert stats["web"]["network"]["rxBytes"] > 0
        assert "network" not in stats["hosted"]
        node.kill()
        node.start()
        node.wait(lambda: shown(node, "web").get("podIP") == address, "the same address")
        node.wait(lambda: is_ready(node, "web"), "its probe")
    finally:
        node.stop()
