"""What an operator wants of a node of this machine: the only list of its settings.

Flags, configuration files and programs that import Jettison fill the same value, and every part of a node is made from
it. It is checked when it is made, so a mistake is told before anything is started. Settings of a cluster, and of a node
that joins one, are in `cluster_settings`; how settings travel to the process that carries them out is in
`process/handover`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from jettison.engine.config.policy import Policy
from jettison.engine.scheduling.placement import Taint
from jettison.errors import InputError
from jettison.node.places import absolute, default_node_name, default_state_dir
from jettison.runtimes.host.settings import HostSettings, checked_node_name
from jettison.values import frozen

# Told apart by its identity: an empty path is the working directory.
_BELOW_STATE_DIR = Path()
HOST, CRI, AUTO = RUNTIMES = ("host", "cri", "auto")
_UNIX = "unix://"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def checked_endpoint(endpoint: str) -> Path:
    """The socket that an endpoint names."""
    path = Path(endpoint.removeprefix(_UNIX))
    if "://" in endpoint.removeprefix(_UNIX) or not path.is_absolute() or "\0" in endpoint:
        raise InputError(f"invalid container runtime endpoint `{endpoint}`: must be `unix://` and an absolute path")
    return path


@frozen
class NodeSettings(HostSettings):
    """One node of this machine. The runtime's own settings are among them, so a `HostRuntime` takes this value."""

    node_name: str = field(default_factory=default_node_name)
    state_dir: Path = field(default_factory=default_state_dir)
    node_dir: Path = _BELOW_STATE_DIR
    policy: Policy = field(default_factory=lambda: Policy.of({}))
    # Directories of pods to run; they are watched.
    manifests: tuple[Path, ...] = ()
    # The same for static pods, which are critical and never evicted.
    static_manifests: tuple[Path, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    # Whether evicted pods are admitted again once the pressure is over.
    readmits: bool = False
    is_dry_run: bool = False
    # Host and port on the loopback, besides the socket; port 0 takes a free one.
    listen: tuple[str, int] | None = None
    # Alarms and rankings in the log, too.
    is_verbose: bool = False
    # What pods run in: `host`, processes; `cri`, containers; `auto`, containers for pods with images where a container
    # runtime is found.
    runtime: str = AUTO
    # `unix://` and a path; empty: looked for at the usual places.
    cri_endpoint: str = ""
    # Whether a container may be privileged.
    allow_privileged: bool = False

    def __post_init__(self) -> None:
        self._set("state_dir", absolute(self.state_dir))
        checked_node_name(self.node_name)
        is_given = self.node_dir is not _BELOW_STATE_DIR
        self._set("node_dir", absolute(self.node_dir) if is_given else self.node_state / "files")
        for name in ("manifests", "static_manifests"):
            self._set(name, tuple(absolute(each) for each in getattr(self, name)))
        HostSettings.__post_init__(self)
        for taint in self.taints:
            if taint.effect not in _EFFECTS:
                raise InputError(f"invalid effect `{taint.effect}` of taint `{taint.key}`: {' or '.join(_EFFECTS)}")

        if self.runtime not in RUNTIMES:
            raise InputError(f"invalid runtime `{self.runtime}`: {', '.join(RUNTIMES)}")
        if self.cri_endpoint:
            checked_endpoint(self.cri_endpoint)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def node_state(self) -> Path:
        """Journal, history and socket of this node."""
        return self.state_dir / "node" / self.node_name

    @property
    def every_node(self) -> tuple[NodeSettings, ...]:
        """This one: other settings have several."""
        return (self,)

    @property
    def node_labels(self) -> Mapping[str, str]:
        """What nodeSelector sees."""
        return {"kubernetes.io/hostname": self.node_name, "kubernetes.io/os": "linux", **self.labels}

    def for_node(self, name: str) -> NodeSettings:
        """The same for one of several nodes: each has a name, a directory and a cgroup of its own."""
        node_dir = _BELOW_STATE_DIR if self.node_dir.is_relative_to(self.node_state) else self.node_dir / name
        cgroup = f"{self.cgroup_name}/{name}" if self.cgroup_name else ""
        return replace(self, node_name=name, node_dir=node_dir, cgroup_name=cgroup, listen=None)
