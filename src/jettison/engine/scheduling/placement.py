"""Which nodes does a pod ask for, and does it bear a node's taints, and for how long?

Three askers share one rule of tolerance: the kubelet's admission under memory pressure, the scheduler (which
taint keeps a pod away first) and the taint-eviction controller (when must a pod leave).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from jettison.engine.labels.requirements import Operator, Requirement
from jettison.engine.numbers.strconv import parse_int64
from jettison.values import frozen

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

LONGEST_SECONDS: Final = (2**63 - 1) // 10**9
"""292 years: the longest wait that fits Kubernetes' 64 bits of nanoseconds. More than that has no end."""

# Stricter than what Go parses: `07`, `+7` and `-0` are no numbers here.
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")

NAME_FIELD = "metadata.name"
"""The only field of a node that a term can ask for; DaemonSets pin their pods with it."""


class Taint(NamedTuple):
    """A node's mark against pods that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class Toleration(NamedTuple):
    """A pod's licence to be on a tainted node. An empty key or effect stands for every one."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@frozen
class Stay:
    """How long NoExecute taints let a pod stay: `seconds` is None without limit and 0 when it must go now."""

    is_tainted: bool
    is_tolerated: bool
    seconds: int | None


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """The one rule. An unknown operator tolerates nothing, and operators are case-sensitive.

    Surprise: with an empty key `Equal` still compares values, so `{}` tolerates every taint without a value.
    `Lt` and `Gt` ask whether the *taint's* value is below or above the toleration's; v1.36 has them off.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            return _compares(toleration, taint)
        case _:
            return False


def bearing_toleration(
    taint: Taint, tolerations: Iterable[Toleration], *, comparison_operators: bool = False
) -> Toleration | None:
    """The first toleration that bears the taint. Later ones do not matter, whatever seconds they grant."""
    for toleration in tolerations:
        if tolerates(toleration, taint, comparison_operators=comparison_operators):
            return toleration
    return None


def first_untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], *, comparison_operators: bool = False
) -> Taint | None:
    """What keeps a pod off the node: the first NoSchedule or NoExecute taint that nothing tolerates.

    PreferNoSchedule is a wish, so it never keeps a pod away.
    """
    for taint in taints:
        if taint.effect not in (NO_SCHEDULE, NO_EXECUTE):
            continue
        if bearing_toleration(taint, tolerations, comparison_operators=comparison_operators) is None:
            return taint
    return None


def no_execute_stay(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], *, comparison_operators: bool = False
) -> Stay:
    """How long the taint-eviction controller lets a pod with these tolerations stay on such a node.

    The shortest wait of all bearing tolerations wins. 0 or less is no wait; a toleration without seconds sets
    no end; one taint that nothing bears ends the stay at once.
    """
    is_tainted = False
    seconds: int | None = None
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        is_tainted = True
        toleration = bearing_toleration(taint, tolerations, comparison_operators=comparison_operators)
        if toleration is None:
            return Stay(is_tainted=True, is_tolerated=False, seconds=0)
        if toleration.seconds is not None and toleration.seconds <= LONGEST_SECONDS:
            wait = max(toleration.seconds, 0)
            seconds = wait if seconds is None else min(seconds, wait)
    return Stay(is_tainted=is_tainted, is_tolerated=True, seconds=seconds)


def _compares(toleration: Toleration, taint: Taint) -> bool:
    bound = _canonical_integer(toleration.value)
    value = _canonical_integer(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def _canonical_integer(text: str) -> int | None:
    return parse_int64(text) if _CANONICAL_INTEGER.fullmatch(text) else None


class NodeTerm(NamedTuple):
    """All of it must hold: of the node's labels and of its name. A term that asks for nothing matches no node."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Does a node with these labels and this name satisfy it?"""
        if not self.labels and not self.names:
            return False
        return all(each.matches({NAME_FIELD: name}) for each in self.names) and all(
            each.matches(labels) for each in self.labels
        )

    @property
    def pinned(self) -> frozenset[str] | None:
        """The names that it allows at most; None where it names none."""
        allowed = [frozenset(each.values) for each in self.names if each.operator is Operator.IN]
        return frozenset.intersection(*allowed) if allowed else None


class Preference(NamedTuple):
    """A term that would be nice, and how much."""

    weight: int
    term: NodeTerm


@frozen
class NodeAffinity:
    """Required terms are alternatives. None: nothing is required; none of them: no node will do."""

    selector: tuple[tuple[str, str], ...] = ()
    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[Preference, ...] = ()

    def admits(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether the pod may run on a node with these labels and this name."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        return self.required is None or any(term.matches(labels, name) for term in self.required)

    def liking(self, labels: Mapping[str, str], name: str) -> int:
        """How much the pod would like it there: the weights of all preferences that hold."""
        return sum(each.weight for each in self.preferred if each.term.matches(labels, name))

    def pinned(self) -> frozenset[str] | None:
        """The nodes that come into question by name alone, if every alternative names some."""
        allowed = [term.pinned for term in self.required or ()]
        named = [each for each in allowed if each is not None]
        return frozenset[str]().union(*named) if allowed and len(named) == len(allowed) else None


ANYWHERE = NodeAffinity()
NOWHERE = NodeAffinity(required=())
