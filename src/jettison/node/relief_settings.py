"""What an operator wants of relief beside a kubelet.

Apart from `cluster_settings`, because relief starts in a moment and loads nothing that an API or a guard is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.back_off import MOST_A_MINUTE
from jettison.values import frozen


@frozen
class ReliefSettings:
    """The watch beside a kubelet, of which a dry run only observes, and the API of the node."""

    node: NodeSettings
    # Empty: KUBECONFIG, or ~/.kube/config, or the service account of the pod.
    kubeconfig: str = ""
    context: str = ""
    # Thresholds of its own, as in evictionHard; empty: twice the kubelet's for memory.
    at: Mapping[str, str] = field(default_factory=dict)
    # The cgroup that is the node, where that is not the machine; where the kubelet keeps its pods is below it.
    within: str = ""
    most_a_minute: int = MOST_A_MINUTE
    # Where its Lease is.
    lease_namespace: str = "kube-system"

    @property
    def every_node(self) -> tuple[NodeSettings, ...]:
        """The one beside it."""
        return (self.node,)
