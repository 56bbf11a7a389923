"""Runs inside the guest and reports what its kernel and its interpreter are."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import socket
import sys
import time
from pathlib import Path

import click
import msgspec
import yaml

import jettison
import jettison.engine
from tests.live.guest_side import CGROUPS, report


def system() -> None:
    mounts = [line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        report(loopback=True)
    report(
        cgroup_mounts=[kind for kind in mounts if kind.startswith("cgroup")],
        controllers=(CGROUPS / "cgroup.controllers").read_text().split(),
        time=time.time(),
        cargo=Path("cargo/bytes").read_bytes().hex(),
    )


def imports() -> None:
    home = Path(jettison.__file__)
    report(
        python=sys.version,
        requirements={name: importlib.metadata.version(name) for name in ("click", "msgspec", "pyyaml")},
        answers=[click.unstyle("plain"), msgspec.json.decode(b"[1]"), yaml.load("[1]", yaml.CSafeLoader)],
        jettison=[str(home), hashlib.sha256(home.read_bytes()).hexdigest()],
        engine=list(jettison.engine.__path__),
        bytecode_flags=Path(importlib.util.cache_from_source(str(home))).read_bytes()[4],
    )
