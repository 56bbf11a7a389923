"""A node of this machine, put together: runtime, agent, journal, endpoints, logs, manifests and membership.

`Node` guards what `NodeSettings` describe, `LocalCluster` serves a Kubernetes API with nodes of its own: a program
imports them from here (docs/library.md). The processes of `jettison up`, `node` and `serve` begin in `process`. No
option is parsed here, that is the work of `cli`, and no rule lives here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jettison.node.cluster.local_cluster import LocalCluster
    from jettison.node.cluster_settings import ClusterSettings
    from jettison.node.node import Node
    from jettison.node.settings import NodeSettings

__all__ = [
    "ClusterSettings",
    "LocalCluster",
    "Node",
    "NodeSettings",
]

_MODULES = {
    "ClusterSettings": "cluster_settings",
    "LocalCluster": "cluster.local_cluster",
    "Node": "node",
    "NodeSettings": "settings",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A public name, from its module: an agent loads no API server, and `process` decides what is loaded first."""
        if name not in _MODULES:
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
