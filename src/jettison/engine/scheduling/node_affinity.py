"""Which nodes does a pod ask for? Its nodeSelector, its required node affinity, and what it would like better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jettison.engine.labels.selectors import Operator, Requirement

NAME_FIELD = "metadata.name"
"""The only field of a node that a term can ask for; DaemonSets pin their pods with it."""


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


@dataclass(frozen=True, slots=True)
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
