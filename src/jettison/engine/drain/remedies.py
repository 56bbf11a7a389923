"""What would let a blocked pod go? The way out of each refusal, in words that name the number and the object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jettison.engine.budgets.budget import ALWAYS_ALLOW, SYNC_FAILED, Budget, GuardedPod
from jettison.engine.budgets.verdict import MOST_DISRUPTED_PODS, Refusal, Refused

_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Guard:
    """A budget at some point of a plan, with the pods it guards."""

    budget: Budget
    pods: tuple[GuardedPod, ...]
    # Who takes from it in this wave, and who took from it before; replacements of the latter must be Ready.
    spending: tuple[str, ...] = ()
    spenders: tuple[str, ...] = ()
    # Ready pods that went and are replaced by nobody.
    lost: tuple[str, ...] = ()

    @property
    def allowed(self) -> int:
        """How many more may go."""
        return self.budget.status.disruptions_allowed


def remedy(pod: GuardedPod, refused: Refused, guards: Sequence[Guard]) -> str:
    """What somebody must do, or wait for, before this pod may go."""
    if refused.refusal is Refusal.SEVERAL_BUDGETS:
        names = " and ".join(str(guard.budget) for guard in guards)
        return f"let only one budget select the pod, now {names} do"
    (guard,) = guards
    status = guard.budget.status
    condition = status.disruption_allowed
    if condition is not None and condition.reason == SYNC_FAILED:
        return f"mend what the disruption controller complains about: {condition.message}"
    match refused.refusal:
        case Refusal.UNPROCESSED:
            generations = f"generation {guard.budget.generation}, it has seen {status.observed_generation}"
            return f"the disruption controller must process the budget ({generations}): does it run?"
        case Refusal.OVERFULL:
            waiting = f"{len(status.disrupted_pods)} evictions, more than {MOST_DISRUPTED_PODS}"
            return f"the disruption controller must confirm {waiting}: does it run?"
        case Refusal.NEGATIVE:
            return f"the disruption controller must count again, the budget allows {status.disruptions_allowed}"
        case _:
            return _way_out(pod, guard)


def _way_out(pod: GuardedPod, guard: Guard) -> str:
    """Of a budget that is spent."""
    if guard.budget.status.expected_pods <= 0:
        return _countable(guard)
    ways = [_more_ready(guard) or _other_numbers(guard)]
    if not pod.is_ready and guard.budget.unhealthy_policy != ALWAYS_ALLOW:
        ways.append(f"set unhealthyPodEvictionPolicy to {ALWAYS_ALLOW}, for this pod is not Ready")
    return ", or ".join(ways)


def _countable(guard: Guard) -> str:
    """Where no pods are expected none may go, however many there are."""
    budget = guard.budget
    if budget.min_available is None and budget.max_unavailable is None:
        return "set minAvailable or maxUnavailable, a budget with neither allows nothing"
    if all(pod.controller is None for pod in guard.pods):
        return f"set minAvailable to a number, {_rule(budget)} does not count pods without a controller"
    return "scale up the workload or delete the pod, the workload wants no pods at all"


def _more_ready(guard: Guard) -> str:
    """Enough pods are there, they are just not Ready."""
    status = guard.budget.status
    lacking = status.desired_healthy + 1 - status.current_healthy
    if lacking <= 0:
        return "the disruption controller must count again"
    unready = [pod for pod in guard.pods if not pod.is_ready and not pod.is_terminating and not _is_over(pod)]
    if len(unready) < lacking:
        return ""
    return f"{lacking} more Ready {_pods(lacking)}, not Ready now: {_names(unready)}"


def _other_numbers(guard: Guard) -> str:
    """Even with every pod Ready there would be no room. More pods help only where the rule does not grow with them."""
    budget = guard.budget
    needed = budget.status.desired_healthy
    way = f"raise {_rule(budget)}" if budget.max_unavailable is not None else f"lower {_rule(budget)}"
    if isinstance(budget.min_available, int) and budget.max_unavailable is None:
        short = needed + 1 - sum(not _is_over(pod) and not pod.is_terminating for pod in guard.pods)
        way = f"add {short} {_pods(short)} or {way}"
    because = f"{needed} healthy {_pods(needed)} must remain"
    if guard.lost:
        because += f" and nobody replaces {', '.join(guard.lost[:_MOST_NAMES])}"
    return f"{way}: {because}"


def _rule(budget: Budget) -> str:
    if budget.max_unavailable is not None:
        return f"maxUnavailable `{budget.max_unavailable}`"
    return f"minAvailable `{budget.min_available}`"


def _is_over(pod: GuardedPod) -> bool:
    return pod.phase in ("Succeeded", "Failed")


def _pods(count: int) -> str:
    return "pod" if count == 1 else "pods"


def _names(pods: Sequence[GuardedPod]) -> str:
    names = [f"{pod.namespace}/{pod.name}" for pod in pods[:_MOST_NAMES]]
    rest = len(pods) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")
