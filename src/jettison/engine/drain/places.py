"""Is there a node for the replacements of the pods that a drain takes off? Where there is none, budgets never recover.

Asked are the scheduler's own questions about nodes and pods, except whether there is room enough: that depends on who
else comes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace

from jettison.engine.scheduling.filters import unsuitability
from jettison.engine.scheduling.nodes import NodeOffer
from jettison.engine.scheduling.pods import PlaceablePod


def stranded_pods(
    pods: Iterable[PlaceablePod], ready_nodes: Iterable[NodeOffer], drained: Collection[str]
) -> frozenset[str]:
    """Which of these pods, as `namespace/name`, could be placed nowhere if they were new?

    A drain cordons all its nodes before it evicts anybody, so a drained node takes only who tolerates that.
    """
    nodes = [replace(each, is_cordoned=True) if each.name in drained else each for each in ready_nodes]
    answers: dict[Hashable, bool] = {}
    stranded = []
    for pod in pods:
        # Replicas ask for the same, and there may be thousands of nodes to ask.
        wish = pod.tolerations, pod.affinity
        if wish not in answers:
            unbound = replace(pod, node="")
            answers[wish] = all(unsuitability(unbound, node) is not None for node in nodes)
        if answers[wish]:
            stranded.append(str(pod))
    return frozenset(stranded)
