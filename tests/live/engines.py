"""A Docker and a Podman of the tests' own: Debian's programs, unpacked and not installed, with a root and a socket.

Both put their containers below one cgroup of the run. Neither touches the network of the machine.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.janitor import fresh_name
from tests.live import containerd as containerds
from tests.live import debian

IMAGE = "docker.io/local/box:1"
_START_SECONDS = 30
# Programs, and libraries that a small installation lacks.
_PACKAGES = {
    "docker.io": ("usr/sbin/dockerd", "usr/bin/docker"),
    "libdevmapper1.02.1": ("lib/x86_64-linux-gnu/libdevmapper.so.1.02.1",),
    "podman": ("usr/bin/podman",),
    "conmon": ("usr/bin/conmon",),
    "libgpgme11": ("usr/lib/x86_64-linux-gnu/libgpgme.so.11",),
    "libassuan0": ("usr/lib/x86_64-linux-gnu/libassuan.so.0",),
    "libsubid4": ("usr/lib/x86_64-linux-gnu/libsubid.so.4",),
    "libseccomp2": ("usr/lib/x86_64-linux-gnu/libseccomp.so.2",),
    "libglib2.0-0": ("usr/lib/x86_64-linux-gnu/libglib-2.0.so.0",),
}
_PODMAN_CONFIG = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "{home}/tmp"
conmon_path = ["{programs}/conmon"]
[engine.runtimes]
runc = ["{containerd}/runc"]
"""
_PODMAN_STORAGE = """
[storage]
driver = "overlay"
graphroot = "{home}/graph"
runroot = "{home}/run"
"""
_TRUST = {"default": [{"type": "insecureAcceptAnything"}]}


@functools.cache
def programs() -> Path:
    """A directory with all of them. The first time downloads 60 MB."""
    return debian.programs("engine-programs", _PACKAGES)


@dataclass
class Engine:
    """One that runs: the same words start and show containers of either."""

    kind: str
    home: Path
    # The parent of its containers, below the root of the memory hierarchy.
    cgroup: str = field(default_factory=lambda: f"jettison-{fresh_name()}")
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.home / "e.sock"

    def run(self, name: str, command: Sequence[str], *options: str) -> None:
        """Start a container and leave it running."""
        self.order(
            "run", "-d", "--name", name, "--net=host", f"--cgroup-parent=/{self.cgroup}", *options, IMAGE, *command
        )

    def states(self) -> dict[str, str]:
        """By name, of all that are not removed: `Up` or `Exited`."""
        words = self.order("ps", "-a", "--format", "{{.Names}} {{.Status}}").split("\n")
        return {name: state.split(" ")[0] for name, _, state in (line.partition(" ") for line in words if line)}

    def order(self, *words: str) -> str:
        binary = str(programs() / self.kind)
        done = subprocess.run(
            [binary, *words], env=self._environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{self.kind} {' '.join(words)}: {done.stderr}"
        return done.stdout

    def start(self) -> None:
        for name in ("net.d", "data", "exec", ".config/containers"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        places = {"home": self.home, "programs": programs(), "containerd": containerds.programs()}
        (self.home / "containers.conf").write_text(_PODMAN_CONFIG.format(**places))
        (self.home / "storage.conf").write_text(_PODMAN_STORAGE.format(**places))
        (self.home / ".config/containers/policy.json").write_text(json.dumps(_TRUST))
        if self.kind == "docker":
            self._start_docker()
        else:
            self._begin(str(programs() / "podman"), "system", "service", "--time=0", f"unix://{self.socket}")
            self._until_there(self.socket)
        archive = self.home / "image.tar"
        containerds.write_image(archive, IMAGE, ["/bin/sleep", "3600"])
        self.order("load", "-i", str(archive))

    def _start_docker(self) -> None:
        config = self.home / "containerd.toml"
        lines = f'version = 2\nroot = "{self.home}/c-root"\nstate = "{self.home}/c-state"\n'
        lines += 'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        lines += f'[grpc]\naddress = "{self.home}/c.sock"\n[ttrpc]\naddress = "{self.home}/c.ttrpc"\n'
        config.write_text(lines)
        self._begin(str(containerds.programs() / "containerd"), "--config", str(config))
        self._until_there(self.home / "c.sock")
        home = self.home
        self._begin(
            str(programs() / "dockerd"),
            *("--data-root", f"{home}/data", "--exec-root", f"{home}/exec", "--pidfile", f"{home}/pid"),
            *("-H", f"unix://{self.socket}", "--containerd", f"{home}/c.sock", "--bridge=none"),
            *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
        )
        self._until_there(self.socket)

    def _begin(self, *command: str) -> None:
        with (self.home / "log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            )

    def _until_there(self, path: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not path.is_socket():
            is_dead = self.processes[-1].poll() is not None
            if is_dead or time.monotonic() > deadline:
                raise AssertionError(f"{self.kind} has not come up: {(self.home / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def hold(self) -> None:
        """It answers nothing until `go_on`."""
        containerds.suspend(self.processes[-1])

    def go_on(self) -> None:
        self.processes[-1].send_signal(signal.SIGCONT)

    def clear(self) -> None:
        """Remove every container."""
        at_once = () if self.kind == "docker" else ("-t", "0")
        for name in self.states():
            self.order("rm", "-f", *at_once, name)

    def stop(self) -> None:
        self.clear()
        for process in reversed(self.processes):
            process.terminate()
            process.wait(30)
        mounted = self.home / ("exec/netns/default" if self.kind == "docker" else "graph/overlay")
        subprocess.run(["umount", "-q", str(mounted)], check=False)
        for tree in Path("/sys/fs/cgroup").iterdir():
            for folder, _, _ in os.walk(tree / self.cgroup, topdown=False):
                Path(folder).rmdir()

    def _environment(self) -> Mapping[str, Any]:
        return os.environ | {
            "PATH": f"{programs()}:{containerds.programs()}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(programs()),
            "HOME": str(self.home),
            "DOCKER_HOST": f"unix://{self.socket}",
            "CONTAINERS_CONF": str(self.home / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.home / "storage.conf"),
        }


@contextmanager
def running(kind: str, home: Path) -> Iterator[Engine]:
    """With an image."""
    engine = Engine(kind, home)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
