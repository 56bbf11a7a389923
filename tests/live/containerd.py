"""A containerd of the tests' own: Debian's programs, unpacked and not installed, with a root, a socket and an image.

Installing the package would start a service and leave it behind. The image is made here: busybox and nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jettison.errors import ContainerRuntimeError, RuntimeFailure
from jettison.runtimes.cri.client import CriClient
from tests.live import debian

IMAGE, PAUSE = "docker.io/local/box:1", "docker.io/local/pause:1"

_PROGRAMS = {
    "containerd": ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr"),
    "runc": ("usr/sbin/runc",),
    "busybox-static": ("bin/busybox",),
}
_PLUGIN_NAMES = ("bridge", "host-local", "loopback")
_PLUGINS = {"containernetworking-plugins": tuple(f"usr/lib/cni/{name}" for name in _PLUGIN_NAMES)}
_START_SECONDS = 30

# oom_score_adj below our own is refused on many machines, and then every sandbox would fail.
_CONFIG = """
version = 2
root = "{root}"
state = "{home}/state"
[grpc]
  address = "{home}/c.sock"
[ttrpc]
  address = "{home}/c.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{home}/cni"
    conf_dir = "{home}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = {systemd}
"""


@functools.cache
def programs() -> Path:
    """A directory with containerd, its shim, ctr, runc and busybox. The first time downloads 50 MB."""
    return debian.programs("containerd-programs", _PROGRAMS)


def network_plugins() -> Path:
    """A directory with what a bridge of pods takes. The first time downloads 7 MB."""
    return debian.programs("network-plugins", _PLUGINS)


@dataclass
class Containerd:
    """One that runs. Its parts can be killed and started again."""

    home: Path
    process: subprocess.Popen[bytes] | None = None
    # Where it keeps images and containers, if not below its home.
    root: Path | None = None
    # Whether it leaves the cgroups of containers to systemd.
    uses_systemd: bool = False
    # What it is started by, such as a program that enters a namespace.
    launcher: Sequence[str] = ()

    @property
    def socket(self) -> Path:
        return self.home / "c.sock"

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Returns when it answers."""
        found = programs()
        config = self.home / "config.toml"
        for name in ("net.d", "cni"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        config.write_text(
            _CONFIG.format(
                home=self.home,
                root=self.root or self.home / "root",
                pause=PAUSE,
                systemd=str(self.uses_systemd).lower(),
            )
        )
        environment = os.environ | {"PATH": f"{found}:{os.environ['PATH']}"}
        with (self.home / "log").open("ab") as log:
            command = [*self.launcher, str(found / "containerd"), "--config", str(config)]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        asyncio.run(self._until_ready())

    def load(self, name: str, command: Sequence[str], filler: int = 0) -> None:
        """An image of busybox with this command, and so many bytes that no other image has."""
        path = self.home / f"{name.replace('/', '_')}.tar"
        write_image(path, name, command, filler)
        self.ctr("images", "import", str(path))
        path.unlink()

    def ctr(self, *words: str, namespace: str = "k8s.io") -> str:
        """containerd's own program."""
        command = [str(programs() / "ctr"), "--address", str(self.socket), "--namespace", namespace, *words]
        path = f"{programs()}:{os.environ['PATH']}"
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"PATH": path}
        )
        assert done.returncode == 0, f"ctr {' '.join(words)}: {done.stderr}"
        return done.stdout

    def kill(self) -> None:
        """SIGKILL, as a crash would; containers and their shims live on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def hold(self) -> None:
        """It hangs until it is continued."""
        assert self.process is not None
        suspend(self.process)

    def go_on(self) -> None:
        """After `hold`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def clear(self) -> None:
        """End every sandbox of every node, then the runtime."""
        if self.process is None:
            self.start()
        asyncio.run(self._clear())
        assert self.process is not None
        self.process.terminate()
        self.process.wait(30)
        self.process = None

    async def _clear(self) -> None:
        """Repeated, because containerd refuses to remove a container whose removal is still under way."""
        client, deadline = CriClient(self.socket), time.monotonic() + _START_SECONDS
        while left := await client.sandboxes({}):
            for each in left:
                try:
                    await client.stop_sandbox(each.id)
                    await client.remove_sandbox(each.id)
                except ContainerRuntimeError:
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.1)
        client.close()

    async def _until_ready(self) -> None:
        client, deadline = CriClient(self.socket), time.monotonic() + _START_SECONDS
        while True:
            try:
                if all(each.is_met for each in await client.conditions() if each.kind == "RuntimeReady"):
                    break
            except RuntimeFailure:
                assert self.process is not None
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.02)
        client.close()


def suspend(process: subprocess.Popen[bytes]) -> None:
    """Returns when all of its threads have stopped: one may answer a question while the signal reaches the others."""
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + _START_SECONDS
    while any(state != b"T" for state in _states(process.pid)):
        assert time.monotonic() < deadline, f"process {process.pid} does not stop"
        time.sleep(0.002)


def _states(pid: int) -> list[bytes]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_bytes().rpartition(b")")[2].split()[0] for task in tasks]


@contextmanager
def running(home: Path, root: Path | None = None, launcher: Sequence[str] = ()) -> Iterator[Containerd]:
    """With both images."""
    found = Containerd(home, root=root, launcher=launcher)
    found.start()
    try:
        found.load(PAUSE, ["/bin/sleep", "2147483647"])
        found.load(IMAGE, ["/bin/sh", "-c", "echo own command; trap 'exit 0' TERM; sleep 3600 & wait"])
        yield found
    finally:
        found.clear()


def write_image(path: Path, name: str, command: Sequence[str], filler: int = 0) -> None:
    """An archive as `docker save` writes it: its layers, a configuration and a list."""
    described, layers = image_parts(command, filler)
    listed = [{"Config": "config.json", "RepoTags": [name], "Layers": [*layers]}]
    with tarfile.open(path, "w") as archive:
        for entry, data in {
            "config.json": described,
            **layers,
            "manifest.json": json.dumps(listed).encode(),
        }.items():
            _add(archive, entry, data)


def image_parts(command: Sequence[str], filler: int = 0) -> tuple[bytes, dict[str, bytes]]:
    """The configuration of an image, and its layers by name: one, and one more with the filler."""
    layers = {"layer.tar": _layer(), **({"filler.tar": _filler(filler)} if filler else {})}
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers.values()]
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin", "FROM_IMAGE=yes"]},
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    return json.dumps(document).encode(), layers


@functools.cache
def _layer() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for folder in ("bin", "tmp", "etc", "data"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        _add(archive, "bin/busybox", (programs() / "busybox").read_bytes(), 0o755)
        _add(archive, "etc/passwd", b"root:x:0:0::/:/bin/sh\n")
        for name in (
            "sh",
            "sleep",
            "cat",
            "echo",
            "head",
            "tail",
            "dd",
            "id",
            "test",
            "touch",
            "kill",
            "grep",
            "ls",
            "env",
            "tar",
            "stty",
            "nc",
            "rm",
            "ln",
            "mkdir",
            "stat",
        ):
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return target.getvalue()


def _filler(size: int) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        _add(archive, "data/filler", os.urandom(size))
    return target.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
