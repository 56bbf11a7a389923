"""One call of `advance` while it is under way: the life as it is by now, and the effects so far."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jettison.engine.lifecycle.effects import Effect, Say
from jettison.engine.lifecycle.facts import LifeFact
from jettison.engine.lifecycle.rules import Moment
from jettison.engine.lifecycle.state import ContainerLife, PodLife


class Turn:
    """The changes are not visible outside until `advance` returns the life."""

    __slots__ = ("effects", "life", "now")

    def __init__(self, life: PodLife, now: Moment) -> None:
        self.life = life
        self.now = now
        self.effects: list[Effect] = []

    @property
    def now_ns(self) -> int:
        """On the monotonic clock."""
        return self.now.monotonic_ns

    def do(self, *effects: Effect) -> None:
        """In this order, after what was asked for before."""
        self.effects += effects

    def say(self, fact: LifeFact) -> None:
        """Report a fact."""
        self.effects.append(Say(fact))

    def change(self, **fields: Any) -> None:
        """Of the pod."""
        self.life = replace(self.life, **fields)

    def container(self, name: str) -> ContainerLife | None:
        """As it is by now; None when the pod has none of this name."""
        return next((each for each in self.life.containers if each.name == name), None)

    def put(self, container: ContainerLife) -> None:
        """In the place of what it was."""
        name = container.name
        containers = tuple(container if each.name == name else each for each in self.life.containers)
        self.life = replace(self.life, containers=containers)
