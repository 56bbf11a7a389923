"""Containers on cgroup v2 alone, in the emulated machine: with the cgroupfs driver, then with systemd as process 1.

A boot with containerd takes 100 s of a processor on a busy machine, which is more than the suite has for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.attacks.tally import Tally
from tests.live import containerd, initramfs
from tests.live.containerd import IMAGE, PAUSE, programs
from tests.live.guest import Guest
from tests.live.guest_side import MIB
from tests.live.private_systemd import SYSTEMD

LIVE = Path(containerd.__file__).parent
DRIVERS = ("cgroupfs", "systemd")

# runc changes the root of a container, which the kernel does not allow where the root is the one that it unpacked.
_INIT = """#!/bin/sh
export PATH=/bin:/usr/bin HOME=/root PYTHONPATH=/src:/site PYTHONUNBUFFERED=1
if [ -z "$MOVED" ]; then
  mkdir /root-again
  mount --bind / /root-again
  cd /root-again
  mount --move . /
  MOVED=1 exec chroot . /init
fi
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/shm /dev/mqueue /dev/pts
hostname guest
ip link set lo up
stty -F /dev/ttyS1 raw
exec {first}
"""
_RUN = """#!/bin/sh
export PATH=/bin:/usr/bin HOME=/root PYTHONPATH=/src:/site PYTHONUNBUFFERED=1
cd /work
python3 script.py </dev/null >/dev/ttyS1 2>&1
echo $? >/dev/ttyS2
poweroff -f
"""
_FIRST = {
    "cgroupfs": "/run.sh",
    "systemd": f"{SYSTEMD} --system --unit=test.target --log-target=console --show-status=no",
}
_ETC = {
    "hosts": "127.0.0.1 localhost\n",
    "resolv.conf": "",
    "hostname": "guest\n",
    "passwd": "root:x:0:0::/root:/bin/sh\n",
    "group": "root:x:0:\n",
    "systemd/system/test.target": "[Unit]\nDefaultDependencies=no\nWants=test.service\n",
    "systemd/system/test.service": "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/run.sh\nOOMPolicy=continue\n",
}


def host_containers(folder: Path, _seed: int, boots: int) -> Tally:
    """One boot for each driver. The seed is for nothing: every run does the same."""
    tally, guest = Tally("containers on v2"), Guest.build()
    names = ("guest_side.py", "guest_kernel.py", "guest_probe.py", "guest_node.py")
    files = {f"tests/live/{name}": (LIVE / name).read_bytes() for name in names}
    files["tests/emptying.py"] = (LIVE.parent / "emptying.py").read_bytes()
    for name, image in (("pause", PAUSE), ("box", IMAGE)):
        containerd.write_image(folder / name, image, ["/bin/sleep", "2147483647"])
        files[f"{name}.tar"] = (folder / name).read_bytes()
    script = (LIVE / "guest_boxes.py").read_text()
    for driver in DRIVERS[:boots]:
        tally.tries += 1
        more = _machine(driver)
        ended = guest.run(script, {**files, "driver": driver.encode()}, timeout=900, memory_mib=1024, more=more)
        if ended.exit_code != 7:
            tally.check(False, f"{driver}: the scenario ended with {ended.exit_code}\n{ended.output[-3000:]}")
            continue
        _check(tally, driver, ended.values)
    return tally


def _machine(driver: str) -> bytes:
    """What a machine with containers has and the other guest has not."""
    archive, found = initramfs.Archive(), programs()
    archive.program("init", _INIT.format(first=_FIRST[driver]).encode())
    archive.program("run.sh", _RUN.encode())
    for name, text in _ETC.items():
        archive.add(f"etc/{name}", text.encode())
    binaries = [found / name for name in ("containerd", "containerd-shim-runc-v2", "ctr", "runc")]
    binaries += [SYSTEMD] if driver == "systemd" else []
    for path in binaries:
        archive.program(str(SYSTEMD)[1:] if path is SYSTEMD else f"bin/{path.name}", path.read_bytes())
    known = {each.name for each in initramfs.distributions()}
    for distribution in initramfs.distributions("cri"):
        if distribution.name not in known:
            binaries += initramfs.add_distribution(archive, distribution)
    initramfs.add_libraries(archive, binaries)
    return bytes(archive)


def _check(tally: Tally, driver: str, seen: Mapping[str, Any]) -> None:
    is_systemd = driver == "systemd"
    told = [values for name, values in seen["facts"] if name == "eviction_started"]
    kills = [values["container"] for name, values in seen["facts"] if name == "out_of_memory_kill"]
    failed = [values for name, values in seen["facts"] if name == "action_failed"]
    tally.check(seen["init"] == ("systemd" if is_systemd else "run.sh"), f"{driver}: process 1 is {seen['init']}")
    tally.check([each["pod"] for each in told] == ["default/leak"], f"{driver}: evicted {told}")
    tally.check(set(kills) == {"main"}, f"{driver}: kills {kills}")
    tally.check(not failed, f"{driver}: {failed}")
    tally.check(
        seen["statuses"]
        == {
            "busy": ["Running", "", [["", None]]],
            "calm": ["Running", "", [["", None]]],
            "capped": ["Failed", "", [["OOMKilled", 137]]],
            "leak": ["Failed", "Evicted", [["Error", 137]]],
        },
        f"{driver}: {seen['statuses']}",
    )
    _check_limits(tally, driver, seen["layout"])
    pods = {each["podRef"]["name"]: each for each in seen["summary"]["pods"]}
    tally.check(20 * MIB < pods["busy"]["memory"]["workingSetBytes"] < 24 * MIB, f"{driver}: {pods['busy']}")
    tally.check(pods["calm"]["containers"][0]["cpu"]["usageCoreNanoSeconds"] > 0, f"{driver}: {pods['calm']}")
    gone = [name for name in seen["after"] if "podleak" in name or "podcapped" in name]
    tally.check(not gone, f"{driver}: cgroups of pods that ended: {gone}")
    adopted = {"busy": "Running", "calm": "Running", "capped": "Failed", "leak": "Failed"}
    tally.check(seen["adopted"] == [adopted, True, False], f"{driver}: the next agent found {seen['adopted']}")
    tally.check(not seen["left"], f"{driver}: left {seen['left']}")
    tally.seen["evictions"] += len(told)
    tally.seen["kills by the kernel"] += len(kills)


def _check_limits(tally: Tally, driver: str, layout: dict[str, list[str]]) -> None:
    """Memory, whether it dies as one, weight, quota and processes: of node, pods, classes, a pod and its container."""
    names = dict[str, str]()
    for name in layout:
        own = name.rpartition("/")[2].removesuffix(".slice").removeprefix("jettison-boxes-").replace("kubepods-", "")
        names[own.replace("_", "-")] = name
    containers = [layout[name] for name in layout if layout[name][1] == "1"]
    whole, unlimited = str(200 * MIB), "max 100000"
    wanted = {
        "kubepods": [whole, "0", "100"],
        "burstable": ["max", "0", "17", unlimited, "max"],
        "besteffort": ["max", "0", "1", unlimited, "max"],
        "burstable-podbusy-1" if driver == "systemd" else "podbusy-1": ["max", "0", "17", unlimited, "50"],
        "podcalm-1": [str(32 * MIB), "0", "59", "50000 100000", "50"],
    }
    for own, values in wanted.items():
        found = layout.get(names.get(own, ""), [])
        tally.check(found[: len(values)] == values, f"{driver}: {own} has {found}, not {values}; {names}")
    tally.check(
        sorted(each[:1] + each[3:4] for each in containers) == [[str(32 * MIB), "50000 100000"], ["max", unlimited]],
        f"{driver}: containers {containers}",
    )
