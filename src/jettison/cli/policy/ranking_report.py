"""A ranking as a table with its reasons, and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.agent.amounts import amount_data, short, signed
from jettison.cli.policy.reasons import why_before_next, why_critical, why_here
from jettison.cli.tables import NOTHING, table
from jettison.engine.node.ranking import Candidate, Ranking
from jettison.engine.node.signals import ROWS, Resource
from jettison.engine.pods.pod import Pod

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
