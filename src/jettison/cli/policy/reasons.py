"""The sort keys of a ranking in words: why a pod stands where it stands, and why before the next one."""

from __future__ import annotations

from collections.abc import Callable

from jettison.agent.amounts import precise, short, signed
from jettison.engine.node.ranking import Candidate, Ranking
from jettison.engine.node.signals import ROWS, Resource
from jettison.engine.numbers.quantity import Quantity
from jettison.engine.pods.pod import Pod

_NO_STATISTICS = "no statistics, the next has some"


def why_critical(pod: Pod) -> str:
    """Which of the rules protects a critical pod."""
    if pod.is_static or pod.is_mirror:
        return "static pod"
    return "critical priority"


def why_here(candidate: Candidate, resource: Resource) -> str:
    """What the pod uses, against what it asked for."""
    usage, excess = candidate.usage, candidate.excess
    if usage is None or excess is None:
        return "no statistics" if resource is Resource.PIDS else "no statistics, such pods go first"
    if resource is Resource.PIDS:
        return f"runs {short(usage, resource)} processes"
    if resource is Resource.INODES:
        return f"uses {short(usage, resource)} inodes"
    if not candidate.request:
        return f"requests nothing, uses {short(usage, resource)}"
    request = short(candidate.request, resource)
    if not excess:
        return f"uses exactly its request of {request}"
    above = bool(candidate.exceeds_request)
    return f"{short(excess if above else -excess, resource)} {'above' if above else 'below'} its request of {request}"


def why_before_next(ranking: Ranking, position: int) -> str | None:
    """The first key in which two neighbours differ; None for the last pod."""
    if position + 1 >= len(ranking):
        return None
    if ranking.are_equal(position, position + 1):
        return "equal keys; Kubernetes leaves this to chance, here the name decides"
    one, other = ranking[position], ranking[position + 1]
    resource = ROWS[ranking.signal].resource
    if resource is Resource.PIDS:
        if one.priority != other.priority or one.has_usage != other.has_usage:
            return _priority(one, other) or _NO_STATISTICS
        return f"more processes ({_compared(one.usage, other.usage, resource)})"
    if one.has_usage != other.has_usage:
        return _NO_STATISTICS
    if one.exceeds_request != other.exceeds_request:
        return "uses inodes, the next none" if resource is Resource.INODES else "above its request, the next is not"
    return _priority(one, other) or f"larger excess ({_compared(one.excess, other.excess, resource, signed)})"


def _priority(one: Candidate, other: Candidate) -> str | None:
    return f"lower priority ({one.priority} < {other.priority})" if one.priority != other.priority else None


def _compared(
    one: Quantity | None, other: Quantity | None, resource: Resource, text: Callable[[Quantity, Resource], str] = short
) -> str:
    """Rounded, unless that makes them look alike."""
    if one is None or other is None:
        return "nobody counted"
    texts = text(one, resource), text(other, resource)
    if texts[0] == texts[1]:
        texts = precise(one, resource), precise(other, resource)
    return f"{texts[0]} > {texts[1]}"
