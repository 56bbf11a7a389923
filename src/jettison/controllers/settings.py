"""What an operator may want otherwise. The defaults are kube-controller-manager's."""

from __future__ import annotations

from jettison.engine.budgets.budget import EXACT, ApiSwitches
from jettison.values import frozen


@frozen
class ControllerSettings:
    """How many ended pods are kept for people to look at, and where budgets are better than Kubernetes'."""

    # Of all kinds together; 0 or less: all of them.
    terminated_pods: int = 12_500
    # Of those that a kubelet evicted, which come in hundreds while a node is under pressure; None: no limit of its own.
    evicted_pods: int | None = None
    switches: ApiSwitches = EXACT
