"""Runs inside the guest: pods in containers of a real containerd and runc, on cgroup v2 alone, with either driver.

The file `driver` says which. With systemd's, systemd is process 1.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from jettison.agent.http.client import fetch
from jettison.engine.config.policy import Policy
from jettison.errors import RuntimeFailure
from jettison.node.watch import SOCKET_NAME
from jettison.runtimes.cri.client import CriClient
from tests.live.guest_node import guarded
from tests.live.guest_side import CGROUPS, MIB, report

HOME = Path("/run/c")
IMAGES = ("pause", "box")
IMAGE = "docker.io/local/box:1"
# The kernel of the guest has no overlay, and layers of a megabyte are quick to copy.
CONFIG = """
version = 2
root = "/tmp/c"
state = "/run/c/state"
disabled_plugins = ["io.containerd.snapshotter.v1.overlayfs"]
[grpc]
  address = "/run/c/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/local/pause:1"
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/run/c/cni"
    conf_dir = "/run/c/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = {systemd}
"""

WAIT = "trap 'exit 0' TERM; sleep 3600 & wait"
VOLUME: dict[str, Any] = {"name": "memory", "emptyDir": {"medium": "Memory"}}
MOUNT: dict[str, Any] = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
# Only one of three processes takes too much; without the group the others would live on.
GREEDY = f"sleep 1000 & tail /dev/zero; {WAIT}"
# Deaf to SIGTERM, and so slow that the node has room for it until SIGKILL, two seconds after that.
FILL = "dd if=/dev/zero of=/memory/$i bs=1M count=8 2>/dev/null"
LEAK = f"trap '' TERM; i=0; while {FILL}; do i=$((i + 1)); sleep 1; done"
# Of the node, by either driver.
TOPS = ("jettison/boxes", "jettison.slice")
FILES = ("memory.max", "memory.oom.group", "cpu.weight", "cpu.max", "pids.max")


def box(name: str, script: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of one container; its uid has a hyphen, which slices have other words for."""
    found = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script]}
    whole = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [found | container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": f"{name}-1"}, "spec": whole}


async def answers() -> None:
    """Returns when containerd does, which takes it seconds here."""
    while True:
        client = CriClient(HOME / "c.sock")
        try:
            await client.version(30)
        except RuntimeFailure:
            await asyncio.sleep(0.2)
        else:
            return
        finally:
            client.close()


def load_images() -> None:
    for name in IMAGES:
        words = ["ctr", "--address", f"{HOME}/c.sock", "--namespace", "k8s.io", "images", "import"]
        subprocess.run([*words, "--snapshotter", "native", f"{name}.tar"], check=True, stdout=subprocess.DEVNULL)


def layout() -> dict[str, list[str]]:
    """What each cgroup of the node may use."""
    places = (each for top in TOPS for each in sorted((CGROUPS / top, *(CGROUPS / top).rglob("*"))) if each.is_dir())
    return {str(each.relative_to(CGROUPS)): [(each / name).read_text().strip() for name in FILES] for each in places}


def processes(pod: str) -> list[str]:
    """Of a pod, in all of its cgroups."""
    (top,) = (each for top in TOPS for each in (CGROUPS / top).rglob(f"*pod{pod}[-_]1*") if each.is_dir())
    return sorted(pid for place in top.rglob("cgroup.procs") for pid in place.read_text().split())


async def first_agent(policy: Policy, endpoint: str) -> list[str]:
    """Pods of each class, a kill at a container's own limit, an eviction; then it goes, and its pods live on."""
    async with guarded("boxes", policy, 200 * MIB, endpoint=endpoint, ends=False) as watching:
        heard = watching.heard

        def started(name: str) -> bool:
            return heard.has("container_started", pod=f"default/{name}")

        watching.write(box("calm", WAIT, {"resources": {"limits": {"memory": "32Mi", "cpu": "500m"}}}))
        fill = f"dd if=/dev/zero of=/memory/x bs=1M count=20; {WAIT}"
        asked: dict[str, Any] = {"resources": {"requests": {"memory": "24Mi", "cpu": "100m"}}}
        watching.write(box("busy", fill, asked | MOUNT, volumes=[VOLUME]))
        await watching.until(lambda: started("calm") and started("busy"), "two pods")
        report(layout=layout(), calm=processes("calm"))
        watching.write(box("capped", GREEDY, {"resources": {"limits": {"memory": "24Mi"}}}))
        await watching.until(lambda: heard.has("container_finished", pod="default/capped"), "end at the limit")
        watching.write(box("leak", LEAK, MOUNT, volumes=[VOLUME]))
        await watching.until(lambda: heard.has("pod_cleaned_up", pod="default/leak"), "eviction")
        socket = watching.node.settings.node_state / SOCKET_NAME
        summary = await asyncio.to_thread(fetch, socket, "/stats/summary", timeout=60)
        statuses = {
            each.pod.name: [each.phase, each.reason, [(one.reason, one.exit_code) for one in each.containers]]
            for each in watching.node.runtime.statuses()
        }
        report(summary=json.loads(summary.body), statuses=statuses, facts=heard.facts, after=layout())
        return processes("busy")


async def main(driver: str) -> None:
    (HOME / "net.d").mkdir(parents=True)
    (HOME / "config.toml").write_text(CONFIG.format(systemd=str(driver == "systemd").lower()))
    endpoint = f"unix://{HOME}/c.sock"
    policy = Policy.of({"evictionHard": {"memory.available": "80Mi"}, "podPidsLimit": 50})
    with (HOME / "log").open("wb") as log:
        containerd = subprocess.Popen(["containerd", "--config", f"{HOME}/config.toml"], stdout=log, stderr=log)
    await answers()
    load_images()
    try:
        before = await first_agent(policy, endpoint)
        async with guarded("boxes", policy, 200 * MIB, endpoint=endpoint) as watching:
            await asyncio.sleep(1)
            phases = {each.pod.name: each.phase for each in watching.node.runtime.statuses()}
            lives = processes("busy") == before
            report(adopted=[phases, lives, watching.heard.has("container_started")])
    except BaseException:
        print((HOME / "log").read_text()[-3000:])
        raise
    report(init=Path("/proc/1/comm").read_text().strip(), left=sorted(layout()))
    containerd.terminate()
    containerd.wait()


if __name__ == "__main__":
    asyncio.run(main(Path("driver").read_text()))
    sys.exit(7)
