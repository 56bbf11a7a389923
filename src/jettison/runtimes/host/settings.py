"""What the operator says about one node of this machine, and where its files lie.

A node may be smaller than its machine, and several fit on one: each has a name, a cgroup subtree and directories of its
own. Two filesystems are involved on purpose. `node_dir` is nodefs and may run full; what must survive that (records,
journal) lies under `state_dir`.
"""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path

from jettison.engine.lifecycle.rules import PAUSES, Pauses
from jettison.errors import InputError
from jettison.values import frozen

# Names become path components, of cgroups among others, where a dot could make one look like a control file.
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_UID = re.compile(r"[A-Za-z0-9.-]{1,253}")

# What cannot hold an interpreter, a shell and some page cache is a mistyped unit and not a node.
_LEAST_MEMORY = 4 * 1024 * 1024
_LEAST_PIDS = 16


READ_ONLY, PRIVATE, WRITABLE = HOST_FILES = ("read-only", "private", "writable")


@frozen
class HostPace:
    """How often things are done and how long they are waited for, in seconds: as a kubelet does, where it does them.

    No option changes these; a program that needs another pace passes it.
    """

    # How often it is looked which logs have to be rotated, and the bytes from which on one has.
    rotation: float = 10.0
    largest_log: int = 10 * 1024 * 1024
    # How often dead containers are cleared away when the disk is in no need of it.
    collection: float = 60.0
    # How often limits that a full node has refused are tried again.
    enforcement: float = 60.0
    # How long one attempt to kill lasts before it is said that a process does not die.
    kill: float = 10.0
    # How long a pod whose record is lost may run until it is asked for: by then sources are read, and an API has
    # answered.
    lost: float = 60.0
    # How long the start of a pod may hold up the next: its hostPath may hang.
    begin: float = 5.0
    # How long an eviction holds up the loop at most until its record is written.
    in_place: float = 0.0005
    # After which signals wait for a record no longer: a disk that hangs must not keep a pod alive.
    record: float = 0.05
    # Between two attempts to start a container, or to set a pod up.
    pauses: Pauses = PAUSES


@frozen
class HostSettings:
    """Checked when made, so that paths may be built from it."""

    node_name: str
    state_dir: Path
    node_dir: Path
    # Below the root of every hierarchy, or below the delegated cgroup where systemd gave us one. Empty: made from the
    # node's name.
    cgroup_name: str = ""
    # None: the node is the whole machine.
    node_memory: int | None = None
    node_pids: int | None = None
    # False: process groups and /proc even where cgroups could be had.
    uses_cgroups: bool = True
    # Seconds between two walks over the pods' directories, and how long one walk may take before it is cut short.
    disk_period: float = 10.0
    disk_patience: float = 5.0
    pace: HostPace = field(default_factory=HostPace)
    # Bytes that are held on each disk and given up when it is full; 0 holds none.
    ballast: int = 0
    # Whether the container runtime has systemd make cgroups; then the node's are slices.
    uses_slices: bool = False
    # What the host's files are to processes: read-only; `private`, what they write is kept in a layer of their own; or
    # writable, and what they write there is charged to no pod.
    host_files: str = READ_ONLY
    # Patterns of names of images that are never removed.
    keep_images: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_node_name(self.node_name)
        for name, value, least in (("memory", self.node_memory, _LEAST_MEMORY), ("pids", self.node_pids, _LEAST_PIDS)):
            if value is not None and value < least:
                raise InputError(f"invalid node {name} `{value}`: must be at least {least}")
        if self.host_files not in HOST_FILES:
            raise InputError(f"invalid host files `{self.host_files}`: {', '.join(HOST_FILES)}")
        if self.ballast < 0:
            raise InputError(f"invalid ballast `{self.ballast}`: must not be negative")
        for path in (self.state_dir, self.node_dir):
            if not path.is_absolute():
                raise InputError(f"invalid directory `{path}`: must be an absolute path")

    @property
    def node_cgroup(self) -> str:
        """Everything of this node is below this cgroup; with `node_memory` it carries that limit."""
        return self.cgroup_name or f"jettison/{self.node_name}"

    @property
    def records_dir(self) -> Path:
        """One file per pod."""
        return self.state_dir / "node" / self.node_name / "pods"

    @property
    def pods_dir(self) -> Path:
        """Volumes and writable directories, on nodefs."""
        return self.node_dir / "pods"

    @property
    def logs_dir(self) -> Path:
        """What containers wrote, on nodefs; outlives the pods."""
        return self.node_dir / "logs"

    def pod_dir(self, uid: str) -> Path:
        """`volumes` and `containers` of one pod are below."""
        return self.pods_dir / checked_uid(uid)


def checked_node_name(name: str) -> str:
    """The name, once it is certain that it can be a path component."""
    if not _NODE_NAME.fullmatch(name) or ".." in name:
        raise InputError(f"invalid node name `{name}`: must be a lower case DNS name")
    return name


def checked_uid(uid: str) -> str:
    """The uid, once it is certain that it is a harmless path component."""
    if not _UID.fullmatch(uid) or uid in (".", ".."):
        raise InputError(f"invalid pod uid `{uid[:80]}`: must be 1 to 253 letters, digits, `.` or `-`")
    return uid
