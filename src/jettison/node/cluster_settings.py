"""What an operator wants of a cluster on this machine, of a node that joins one elsewhere, or of a guard over others.

Apart from `settings`, because an agent on its own loads none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from jettison.controllers.settings import ControllerSettings
from jettison.engine.labels.syntax import NODE_LABEL_PREFIXES, NODE_LABELS, is_administrators_label
from jettison.errors import InputError
from jettison.node.places import absolute, default_state_dir
from jettison.node.relief_settings import ReliefSettings
from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.host.settings import checked_node_name
from jettison.values import frozen


@frozen
class GuardSettings:
    """The watch, of which a dry run only observes, and what it is to guard."""

    node: NodeSettings
    adopted: AdoptedSettings

    @property
    def every_node(self) -> tuple[NodeSettings, ...]:
        """The one machine."""
        return (self.node,)


@frozen
class MemberSettings:
    """One node of this machine, and the Kubernetes API that it joins."""

    node: NodeSettings
    # Empty: KUBECONFIG, or ~/.kube/config.
    kubeconfig: str = ""
    context: str = ""
    # Where its pods can be reached; empty: the address from which the API is reached.
    address: str = ""
    # Where the API asks this node for logs; 0 takes a free port.
    port: int = 0

    def __post_init__(self) -> None:
        _check_own_labels(self.node)

    @property
    def every_node(self) -> tuple[NodeSettings, ...]:
        """The one that joins."""
        return (self.node,)


@frozen
class ClusterSettings:
    """A Kubernetes API on this machine, its controllers, and nodes that join it."""

    state_dir: Path = field(default_factory=default_state_dir)
    # Host and port; port 0 takes a free one.
    listen: tuple[str, int] = ("127.0.0.1", 0)
    nodes: tuple[NodeSettings, ...] = ()
    # Names of nodes that join from elsewhere: each gets a kubeconfig.
    members: tuple[str, ...] = ()
    # By name, as `jettison controllers` has them; None: all.
    controllers: frozenset[str] | None = None
    control: ControllerSettings = field(default_factory=ControllerSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state_dir", absolute(self.state_dir))
        for name in self.members:
            checked_node_name(name)
        for node in self.nodes:
            if node.manifests or node.static_manifests:
                raise InputError("--manifests belong to a single node; with --nodes, pods come from the API")
            _check_own_labels(node)

    @property
    def every_node(self) -> tuple[NodeSettings, ...]:
        """Those of this machine that the same command guards."""
        return self.nodes

    def kubeconfig(self, name: str = "admin") -> Path:
        """Of a user or a node, by its name; the API server writes it."""
        return self.state_dir / f"{name}.kubeconfig"

    def greeting(self, url: str) -> str:
        """What to try first."""
        names = ", ".join(each.node_name for each in self.nodes)
        served = f"serving {url}, try: kubectl --kubeconfig {self.kubeconfig()} get"
        return f"{served} nodes\nnodes: {names}" if names else f"{served} namespaces"


def _check_own_labels(node: NodeSettings) -> None:
    """Refuse labels that a cluster does not accept from a node: every attempt to join would fail."""
    if refused := sorted(filter(is_administrators_label, node.labels)):
        shown = ", ".join(f"`{each}`" for each in refused)
        prefixes, labels = " or ".join(NODE_LABEL_PREFIXES), ", ".join(sorted(NODE_LABELS))
        raise InputError(
            f"--node-label: a node of a cluster may not label itself {shown}: under kubernetes.io and k8s.io it may "
            f"use what begins with {prefixes}, and {labels}; an administrator may set others"
        )


Settings = NodeSettings | MemberSettings | ClusterSettings | GuardSettings | ReliefSettings
"""What a process that stays is started with."""

HandOver = Callable[[Settings], None]
"""What a command does with the settings that it has read; see `process/handover`."""
