"""Disruption budgets: their values, the arithmetic of `minAvailable: 50%`, and where we may be better than upstream.

The status is the only thing that the disruption controller (`sync`), which computes it, and the eviction
handler (`verdict`), which spends it, have in common. The switches are explained in docs/faithfulness.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Final

from jettison.engine.labels.selectors import SelectorObject
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN, atoi, quote
from jettison.errors import InputError
from jettison.values import frozen

DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
SUFFICIENT_PODS: Final = "SufficientPods"
INSUFFICIENT_PODS: Final = "InsufficientPods"
SYNC_FAILED: Final = "SyncFailed"
ALWAYS_ALLOW: Final = "AlwaysAllow"


@frozen
class BudgetCondition:
    """One entry of a budget's conditions; `status` is True, False or Unknown in letters, as Kubernetes has it."""

    kind: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    changed_ns: int = 0


@frozen
class BudgetStatus:
    """What the controller last computed, and what the handler has spent since.

    `disrupted_pods` says by name when an eviction was granted; such a pod counts as gone before it is.
    """

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, int] = field(default_factory=dict)
    conditions: tuple[BudgetCondition, ...] = ()

    @property
    def disruption_allowed(self) -> BudgetCondition | None:
        """The one condition that Kubernetes writes, if it was written yet."""
        return next((each for each in self.conditions if each.kind == DISRUPTION_ALLOWED), None)

    def with_condition(self, new: BudgetCondition) -> BudgetStatus:
        """Replace the condition of that kind in its place, or append it. Its time moves only when it flips."""
        conditions = list(self.conditions)
        for index, old in enumerate(conditions):
            if old.kind == new.kind:
                changed_ns = old.changed_ns if old.status == new.status else new.changed_ns
                conditions[index] = replace(new, changed_ns=changed_ns)
                break
        else:
            conditions.append(new)
        return replace(self, conditions=tuple(conditions))

    def allowance(self, now_ns: int = 0) -> BudgetCondition:
        """The condition as it should be: may any pod be disrupted?"""
        is_allowed = self.disruptions_allowed > 0
        return BudgetCondition(
            kind=DISRUPTION_ALLOWED,
            status="True" if is_allowed else "False",
            reason=SUFFICIENT_PODS if is_allowed else INSUFFICIENT_PODS,
            observed_generation=self.observed_generation,
            changed_ns=now_ns,
        )


@frozen
class Budget:
    """A PodDisruptionBudget. An absent selector guards no pod, an empty one all pods of the namespace."""

    name: str
    namespace: str = "default"
    generation: int = 0
    selector: SelectorObject | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_policy: str = ""
    status: BudgetStatus = BudgetStatus()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def with_status(self, status: BudgetStatus) -> Budget:
        """The same budget; an eviction makes one, and `replace` would take four times as long."""
        rules = (self.selector, self.min_available, self.max_unavailable, self.unhealthy_policy)
        return Budget(self.name, self.namespace, self.generation, *rules, status)


def scaled(value: int | str, total: int, *, round_up: bool) -> int:
    """A number as it is, or a percentage of `total`. There is no upper bound: 200% of 4 are 8.

    The product is a 64-bit float as in Kubernetes, whose overflow on amd64 is the smallest 64-bit integer.
    """
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise InputError("invalid value for IntOrString: invalid type: string is not a percentage")
    try:
        percent = atoi(value.removesuffix("%"))
    except InputError as error:
        raise InputError(f"invalid value for IntOrString: invalid value {quote(value)}: {error}") from error
    exact = float(percent) * float(total) / 100
    rounded = math.ceil(exact) if round_up else math.floor(exact)
    return rounded if INT64_MIN <= rounded <= INT64_MAX else INT64_MIN


@frozen
class ApiSwitches:
    """All off is upstream."""

    # Options and preconditions are checked before anything is written, a resourceVersion that the client gave counts,
    # and what cannot succeed is not tried again. Upstream a wrong uid costs a disruption for two minutes, and ten
    # seconds of the server.
    strict_evictions: bool = False
    # Where no healthy pod is required an unready one may go; upstream it may not, unless something is healthy.
    free_unready_pods: bool = False
    # A pod with several budgets goes when all of them let it, and is taken from each; upstream it never goes.
    join_budgets: bool = False
    # A budget that cannot be counted says why no pod may go; upstream it always claims to be still in process.
    observe_failed_syncs: bool = False


EXACT = ApiSwitches()
BETTER = ApiSwitches(**{switch.name: True for switch in fields(ApiSwitches)})
API_PROFILES: Mapping[str, ApiSwitches] = {"kubelet": EXACT, "improved": BETTER}
