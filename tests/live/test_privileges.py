"""What a securityContext asks for, seen in the processes that the kernel shows: capabilities, users, filters, files."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.runtimes.host.processes import capabilities, seccomp
from tests.live.node import LiveNode, pod
from tests.runtimes.host.nodes import needs_root
from tests.runtimes.host.scenes import SLEEPS, Scene, container, eviction, manifest, play, python, shell, until

pytestmark = needs_root

HARDENED = {
    "runAsUser": 12345,
    "capabilities": {"drop": ["ALL"]},
    "allowPrivilegeEscalation": False,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NONE = "0" * 16


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that users other than root may pass: pytest's own is root's."""
    path = Path(tempfile.mkdtemp(prefix="jettison-privileges-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def sets(of: dict[str, str]) -> list[str]:
    return [of[f"Cap{each}"] for each in ("Inh", "Prm", "Eff", "Bnd", "Amb")]


def seen(tmp_path: Path, security: dict[str, Any] | None, **spec: Any) -> dict[str, str]:
    """/proc/<pid>/status of a container with this securityContext."""
    found: dict[str, str] = {}

    async def scenario(scene: Scene) -> None:
        wanted = container(SLEEPS) if security is None else container(SLEEPS, securityContext=security)
        await scene.supervisor.start(manifest(wanted, **spec))
        await until(lambda: scene.container().state == "running")
        found.update(status(scene.pid()))

    play(tmp_path, scenario)
    return found


def test_drop_all_leaves_no_capability_in_any_set_and_root_is_root_in_name_only(tmp_path: Path) -> None:
    found = seen(tmp_path, {"capabilities": {"drop": ["ALL"]}})
    assert sets(found) == [NONE] * 5
    assert found["Uid"].split() == ["0"] * 4
    assert found["NoNewPrivs"] == "0"


def test_a_container_that_says_nothing_keeps_what_the_agent_has(tmp_path: Path) -> None:
    found, own = seen(tmp_path, None), status(os.getpid())
    assert sets(found) == sets(own)
    assert (found["NoNewPrivs"], found["Seccomp"]) == (own["NoNewPrivs"], own["Seccomp"])
    assert found["Groups"] == "0"


@pytest.mark.parametrize(
    ("security", "kept"),
    [
        ({"capabilities": {"drop": ["NET_RAW", "CAP_MKNOD"]}}, capabilities.DEFAULT & ~(1 << 13 | 1 << 27)),
        ({"capabilities": {"drop": ["all"], "add": ["NET_BIND_SERVICE"]}}, 1 << 10),
        ({"capabilities": {"add": ["SYS_PTRACE"]}}, capabilities.DEFAULT | 1 << 19),
        ({"capabilities": {"add": ["ALL"], "drop": ["ALL"]}}, 0),
        ({"capabilities": {"add": ["KILL"], "drop": ["KILL", "ALL"]}}, 0),
        ({"privileged": False}, capabilities.DEFAULT),
    ],
)
def test_capabilities_are_the_default_ones_without_the_dropped_and_with_the_added(
    tmp_path: Path, security: dict[str, Any], kept: int
) -> None:
    text = f"{kept:016x}"
    assert sets(seen(tmp_path, security)) == [NONE, text, text, text, NONE]


def test_everything_at_once(open_dir: Path) -> None:
    found = seen(open_dir, HARDENED, securityContext={"supplementalGroups": [7, 8], "fsGroup": 9, "runAsGroup": 6})
    assert sets(found) == [NONE] * 5
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    assert (found["Uid"].split(), found["Gid"].split()) == (["12345"] * 4, ["6"] * 4)
    assert found["Groups"].split() == ["6", "7", "8", "9"]


def test_a_user_without_a_group_gets_neither_roots_nor_the_agents(open_dir: Path) -> None:
    found = seen(open_dir, {"runAsUser": 12345})
    assert found["Gid"].split() == ["12345"] * 4
    assert found["Groups"] == "12345"
    assert found["CapEff"] == found["CapPrm"] == NONE


def test_a_capability_that_the_agent_has_not_is_said_and_nothing_starts(tmp_path: Path) -> None:
    permitted = int(status(os.getpid())["CapPrm"], 16)
    missing = [name for number, name in enumerate(capabilities.NAMES) if not permitted >> number & 1]
    if not missing:
        pytest.skip("root has every capability here")

    async def scenario(scene: Scene) -> None:
        security = {"capabilities": {"add": [missing[0]]}}
        await scene.supervisor.start(manifest(container(SLEEPS, securityContext=security), restartPolicy="Never"))
        await scene.phase("Failed")
        assert f"the agent itself has no {missing[0]}" in scene.container().message

    play(tmp_path, scenario)


CALLS = """
import ctypes, os, sys, socket, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    libc.syscall(*[ctypes.c_long(each) for each in args])
    return errno.errorcode.get(ctypes.get_errno(), "0")
x86 = os.uname().machine == "x86_64"
print("unshare", call(272 if x86 else 97, 0x10000000))
print("keyctl", call(250 if x86 else 219, 0, -3, 0))
print("mount", call(165 if x86 else 40, 0, 0, 0, 0, 0))
print("bpf", call(321 if x86 else 280, 0, 0, 0))
print("clone3", call(435, 0, 0))
print("clone", call(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0))
print("new", call(9999))
print("x32", call(0x40000000 + 39))
print("personality", call(135 if x86 else 92, 0x0040000))
print("asking", call(135 if x86 else 92, 0xffffffff))
try:
    socket.socket(40, socket.SOCK_STREAM)
except OSError as error:
    print("vsock", errno.errorcode[error.errno])
import threading, subprocess
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print("child", subprocess.run(["true"]).returncode)
"""

REFUSED_CALLS = """unshare EPERM
keyctl EPERM
mount EPERM
bpf EPERM
clone3 ENOSYS
clone EPERM
new ENOSYS
x32 ENOSYS
personality EPERM
asking 0
vsock EPERM
thread
child 0
"""


@pytest.mark.parametrize("more", [{}, {"allowPrivilegeEscalation": False}])
def test_the_default_profile_refuses_what_container_runtimes_refuse(tmp_path: Path, more: dict[str, Any]) -> None:
    if not seccomp.has_profile():
        pytest.skip(f"no profile for {platform.machine()}")

    async def scenario(scene: Scene) -> None:
        security = {"seccompProfile": {"type": "RuntimeDefault"}, **more}
        await scene.supervisor.start(manifest(python(CALLS, securityContext=security), restartPolicy="Never"))
        assert (await scene.phase("Succeeded")).phase == "Succeeded"
        assert scene.log() == REFUSED_CALLS

    play(tmp_path, scenario)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="32-bit calls are those of x86")
def test_a_call_of_another_architecture_ends_the_process(tmp_path: Path) -> None:
    """`int 0x80` reaches the 32-bit table, where mount is 21: numbers that the filter would take for others."""
    program = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()\n"
    )

    async def scenario(scene: Scene) -> None:
        security = {"seccompProfile": {"type": "RuntimeDefault"}}
        await scene.supervisor.start(manifest(python(program, securityContext=security), restartPolicy="Never"))
        await scene.phase("Failed")
        assert scene.container().exit_code == 128 + 31  # SIGSYS

    play(tmp_path, scenario)


def test_probes_and_hooks_have_the_restrictions_of_their_container(open_dir: Path) -> None:
    look = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status > " + f"{open_dir}/seen/"
    (open_dir / "seen").mkdir()
    (open_dir / "seen").chmod(0o777)

    async def scenario(scene: Scene) -> None:
        script = shell(
            look + "main; sleep 60",
            securityContext=HARDENED,
            readinessProbe={"exec": {"command": ["sh", "-c", look + "probe"]}, "periodSeconds": 1},
            lifecycle={"preStop": {"exec": {"command": ["sh", "-c", look + "hook"]}}},
        )
        await scene.supervisor.start(manifest(script))
        main = open_dir / "seen" / "main"
        await until(lambda: scene.container().is_ready and main.exists() and "Seccomp" in main.read_text())
        await scene.supervisor.evict(eviction(scene.status().pod, 5))
        expected = main.read_text()
        assert "NoNewPrivs:\t1" in expected
        assert (open_dir / "seen" / "probe").read_text() == expected
        assert (open_dir / "seen" / "hook").read_text() == expected

    play(open_dir, scenario)


FOREIGN = "echo me:x:12345:6::/:/bin/sh > passwd"
BOUND = "mount --bind passwd /etc/passwd && echo done && exec sleep 600"
ITS_MOUNTS = f"{FOREIGN}; exec unshare --user --map-root-user --mount sh -c '{BOUND}'"
ITS_VOLUMES = f"cd /etc && {FOREIGN} && ln -s $VICTIM /dev/null; exec sleep 600"


@pytest.fixture
def node(open_dir: Path) -> Iterator[LiveNode]:
    """With mounts for each container."""
    found = LiveNode(open_dir, ["--node-memory", "256Mi"])
    yield found
    found.stop()


def test_no_command_enters_mounts_that_a_process_has_made_in_a_user_namespace(node: LiveNode) -> None:
    """It would take the process's list of users for the host's, and any set-uid program would."""
    if subprocess.run(["unshare", "--user", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    node.write(pod("own", ["sh", "-c", ITS_MOUNTS], container={"securityContext": {"runAsUser": 12345}}))
    node.start()
    node.wait(lambda: node.command("logs", "own").stdout == "done\n", "its mounts")
    entered = node.command("exec", "own", "--", "id")
    assert (entered.returncode, entered.stdout) == (1, "")
    assert "it has mounts of its own, in a user namespace of its own" in entered.stderr


def test_what_a_volume_shows_in_the_place_of_the_hosts_files_is_not_the_hosts(node: LiveNode) -> None:
    """The group of a user is looked up on the host, and the null device is the host's."""
    victim = node.directory / "victim"
    victim.write_text("root's")
    victim.chmod(0o600)
    places = ("/dev", "/etc", "/report")
    look = "id -g > /report/new; readlink /proc/self/fd/0 >> /report/new; echo owned >&0; mv -n /report/new /report/at"
    container = {
        "env": [{"name": "VICTIM", "value": f"/proc/1/root{victim}"}],
        "securityContext": {"runAsUser": 12345},
        "volumeMounts": [{"name": each[1:], "mountPath": each} for each in places],
        "readinessProbe": {"exec": {"command": ["sh", "-c", look]}, "periodSeconds": 1, "initialDelaySeconds": 1},
    }
    volumes = [{"name": each[1:], "emptyDir": {}} for each in places]
    node.write(pod("own", ["sh", "-c", ITS_VOLUMES], container=container, volumes=volumes))
    node.start()
    node.wait(lambda: list(node.state.rglob("report/at")), "the probe")
    (report,) = node.state.rglob("report/at")
    assert report.read_text().split() == ["12345", "/dev/null"]
    assert victim.read_text() == "root's"


SPY = """
for path in "$@"; do
    if test -d "$path"; then ls "$path" 2> /dev/null || echo refused; else cat "$path" 2> /dev/null || echo refused; fi
done
"""


def test_another_user_reads_no_log_no_volume_and_no_directory_of_another_pod(open_dir: Path) -> None:
    async def scenario(scene: Scene) -> None:
        secretive = shell(
            "umask 0; echo secret | tee note $JETTISON_VOLUME_V/note; sleep 60",
            volumeMounts=[{"name": "v", "mountPath": "/v"}],
        )
        await scene.supervisor.start(manifest(secretive, volumes=[{"name": "v", "emptyDir": {}}]))
        await until(lambda: scene.log() == "secret\n")
        top, pod_dir = scene.settings.node_dir, scene.settings.pod_dir("uid-a")
        log = scene.settings.logs_dir / "default_a_uid-a" / "c" / "0.log"
        record = scene.settings.records_dir / "uid-a.json"
        wanted = [top / "logs", top / "pods", pod_dir, log, record, scene.write_dir() / "note"]
        wanted.append(pod_dir / "volumes" / "v" / "note")
        assert all(path.exists() for path in wanted)
        spy = shell(SPY, args=["spy", *map(str, wanted)], securityContext={"runAsUser": 12345})
        await scene.supervisor.start(manifest(spy, name="spy", restartPolicy="Never"))
        await scene.phase("Succeeded", "spy")
        assert scene.log(pod="spy") == "refused\n" * len(wanted)

    play(open_dir, scenario)


AT_HOME = r"""
set -e
echo one > /dev/stdout
echo two >> /dev/stdout
echo three >> /dev/stderr
echo four > /proc/self/fd/1
cd "$HOME"; touch here; touch "$TMPDIR/there"
touch "$JETTISON_VOLUME_V/file" v/other sub/file memory/file
stat -c '%g %a' "$JETTISON_VOLUME_V" memory/ >> /dev/stdout
stat -c '%u %g' v/other >> /dev/stdout
"""


@pytest.mark.parametrize("user", [12345, 0])
def test_a_user_has_its_output_its_home_and_its_volumes(open_dir: Path, user: int) -> None:
    mounts = [
        {"name": "v", "mountPath": "/v"},
        {"name": "v", "mountPath": "/sub", "subPath": "deep/er"},
        {"name": "m", "mountPath": "/memory"},
    ]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    security = {**HARDENED, "runAsUser": user}

    async def scenario(scene: Scene) -> None:
        home = shell(AT_HOME, securityContext=security, volumeMounts=mounts)
        made = manifest(home, volumes=volumes, securityContext={"fsGroup": 4321}, restartPolicy="Never")
        await scene.supervisor.start(made)
        await until(lambda: scene.status().phase in ("Failed", "Succeeded"))
        log = scene.log()
        assert scene.status().phase == "Succeeded", log
        assert log.splitlines()[-3:] == ["4321 2777", "4321 2777", f"{user} 4321"]

    play(open_dir, scenario)


def test_containers_of_one_pod_with_different_users_share_its_volumes_and_nothing_else(open_dir: Path) -> None:
    async def scenario(scene: Scene) -> None:
        mounts = [{"name": "v", "mountPath": "/v"}]
        first = shell("echo mine > own; echo ours > v/f; sleep 60", "first", volumeMounts=mounts)
        second = shell(
            'until grep ours v/f; do sleep 0.05; done; cat "$HOME/../../first/0/own" || echo no',
            "second",
            volumeMounts=mounts,
        )
        first["securityContext"], second["securityContext"] = {"runAsUser": 12345}, {"runAsUser": 12346}
        await scene.supervisor.start(manifest(first, second, volumes=[{"name": "v", "emptyDir": {}}]))
        await until(lambda: scene.log("second").endswith("no\n"))
        assert "ours" in scene.log("second")
        assert "mine" not in scene.log("second")

    play(open_dir, scenario)
