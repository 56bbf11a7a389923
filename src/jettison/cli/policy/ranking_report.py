"""A ranking as a table and as data, with reasons: why a pod has its position, and why it comes before the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jettison.agent.amounts import amount_data
from jettison.cli.output import NOTHING, table
from jettison.engine.node.amounts import precise, short, signed
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
    """Rounded, unless the rounded amounts are equal."""
    if one is None or other is None:
        return "not measured"
    texts = text(one, resource), text(other, resource)
    if texts[0] == texts[1]:
        texts = precise(one, resource), precise(other, resource)
    return f"{texts[0]} > {texts[1]}"


_HEAD = ("#", "POD", "EXCEEDS", "PRIORITY", "USAGE", "REQUEST", "EXCESS", "NOTE")
_NUMBERS = ("#", "PRIORITY", "USAGE", "REQUEST", "EXCESS")


def ranking_text(ranking: Ranking) -> str:
    """The keys in columns, then a line of reason for each pod."""
    resource = ROWS[ranking.signal].resource
    keys = table(_HEAD, (_row(each, resource) for each in ranking), right=_NUMBERS)
    reasons = table(("#", "POD", "WHY HERE", "WHY BEFORE THE NEXT"), _reasons(ranking), right="#")
    return f"{keys}\n\n{reasons}"


def ranking_data(ranking: Ranking) -> list[dict[str, Any]]:
    """Every pod with its keys, first to go first."""
    resource = ROWS[ranking.signal].resource
    return [_candidate_data(ranking, candidate, resource) for candidate in ranking]


def pod_data(pod: Pod) -> dict[str, Any]:
    """Which pod."""
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _row(candidate: Candidate, resource: Resource) -> tuple[str, ...]:
    usage, excess = candidate.usage, candidate.excess
    has_request = resource is not Resource.PIDS
    pod = candidate.pod
    # For inodes the request is one for bytes of storage, which upstream subtracts all the same.
    request_of = Resource.EPHEMERAL_STORAGE if resource is Resource.INODES else resource
    return (
        str(candidate.position + 1),
        str(pod),
        NOTHING if candidate.exceeds_request is None else "yes" if candidate.exceeds_request else "no",
        str(candidate.priority),
        NOTHING if usage is None else short(usage, resource),
        short(candidate.request, request_of) if has_request else NOTHING,
        signed(excess, resource) if has_request and excess is not None else NOTHING,
        f"never evicted: {why_critical(pod)}" if pod.is_critical else "",
    )


def _reasons(ranking: Ranking) -> Iterator[tuple[str, ...]]:
    resource = ROWS[ranking.signal].resource
    for candidate in ranking:
        before = why_before_next(ranking, candidate.position)
        yield str(candidate.position + 1), str(candidate.pod), why_here(candidate, resource), before or NOTHING


def _candidate_data(ranking: Ranking, candidate: Candidate, resource: Resource) -> dict[str, Any]:
    pod, position = candidate.pod, candidate.position
    has_request = resource is not Resource.PIDS
    is_last = position + 1 == len(ranking)
    return {
        "position": position + 1,
        **pod_data(pod),
        "qosClass": str(pod.qos),
        "critical": pod.is_critical,
        "whyCritical": why_critical(pod) if pod.is_critical else None,
        "hasStatistics": candidate.has_usage,
        "exceedsRequest": candidate.exceeds_request,
        "priority": candidate.priority,
        "usage": amount_data(candidate.usage),
        "request": amount_data(candidate.request) if has_request else None,
        "excess": amount_data(candidate.excess) if has_request else None,
        "why": why_here(candidate, resource),
        "beforeNext": why_before_next(ranking, position),
        "tiesWithNext": not is_last and ranking.are_equal(position, position + 1),
    }
