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

from jettison.errors import RuntimeFailure
from jettison.runtimes.cri.client import CriClient
from tests.live import debian

IMAGE, PAUSE = "docker.io/local/box:1", "docker.io/local/pause:1"

_PROGRAMS = {
    "containerd": ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr"),
    "runc": ("usr/sbin/runc",),
    "busybox-static": ("bin/busybox",),
}
_START_SECONDS = 30

# oom_score_adj below our own is refused on many machines, and then every sandbox would fail.
_CONFIG = """
version = 2
root = "{home}/root"
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
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{home}/cni"
    conf_dir = "{home}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


@functools.cache
def programs() -> Path:
    """A directory with containerd, its shim, ctr, runc and busybox. The first time downloads 50 MB."""
    return debian.programs("containerd-programs", _PROGRAMS)


@dataclass
class Containerd:
    """One that runs. Its parts can be killed and started again."""

    home: Path
    process: subprocess.Popen[bytes] | None = None

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
        config.write_text(_CONFIG.format(home=self.home, pause=PAUSE))
        environment = os.environ | {"PATH": f"{found}:{os.environ['PATH']}"}
        with (self.home / "log").open("ab") as log:
            command = [str(found / "containerd"), "--config", str(config)]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        asyncio.run(self._until_ready())

    def load(self, name: str, command: Sequence[str], **config: object) -> Path:
        """An image of busybox with this command; returns its archive, too."""
        path = self.home / f"{name.replace('/', '_')}.tar"
        write_image(path, name, command, **config)
        ctr = [str(programs() / "ctr"), "--address", str(self.socket), "--namespace", "k8s.io"]
        subprocess.run([*ctr, "images", "import", str(path)], check=True, capture_output=True, timeout=60)
        return path

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
        client = CriClient(self.socket)
        for each in await client.sandboxes({}):
            await client.stop_sandbox(each.id)
            await client.remove_sandbox(each.id)
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
def running(home: Path) -> Iterator[Containerd]:
    """With both images."""
    found = Containerd(home)
    found.start()
    try:
        found.load(PAUSE, ["/bin/sleep", "2147483647"])
        found.load(IMAGE, ["/bin/sh", "-c", "echo own command; trap 'exit 0' TERM; sleep 3600 & wait"])
        yield found
    finally:
        found.clear()


def write_image(path: Path, name: str, command: Sequence[str], **config: object) -> None:
    """An archive as `docker save` writes it: one layer, a configuration and a list."""
    layer = _layer()
    digest = hashlib.sha256(layer).hexdigest()
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin", "FROM_IMAGE=yes"], **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    described = json.dumps(document).encode()
    listed = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for entry, data in {
            "config.json": described,
            "layer.tar": layer,
            "manifest.json": json.dumps(listed).encode(),
        }.items():
            _add(archive, entry, data)


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
        ):
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return target.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
