"""How large each ReplicaSet of a Deployment may be next: rolling update, and scaling in the middle of one.

Everything is decided from the sizes that were asked for and the pods that are available, never from what a set is
about to do; so it does not matter when, or how often, it is decided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jettison.engine.budgets.budget import scaled
from jettison.values import frozen


@frozen
class Generation:
    """A ReplicaSet as the rollout sees it: one template, and how many pods of it are asked for and available.

    `max_replicas` is what the Deployment with its surge came to when the set was last scaled; None where that was not
    written down.
    """

    name: str
    replicas: int
    available: int = 0
    created: str = ""
    max_replicas: int | None = None


@frozen
class Rollout:
    """What a Deployment asks for. `surge` and `unavailable` are 0 where it replaces all pods at once (Recreate)."""

    replicas: int
    surge: int = 0
    unavailable: int = 0
    is_rolling: bool = True

    @property
    def min_available(self) -> int:
        """So many pods must stay available."""
        return self.replicas - self.unavailable

    @property
    def max_total(self) -> int:
        """So many pods may be asked for, of all generations together."""
        return self.replicas + self.surge


@frozen
class Resize:
    """A set is to ask for so many pods from now on."""

    name: str
    replicas: int


def rolling(replicas: int, max_surge: int | str | None, max_unavailable: int | str | None) -> Rollout:
    """Surge is rounded up and unavailability down. Both 0 would never move: then one pod may be unavailable."""
    surge = scaled(max_surge or 0, replicas, round_up=True)
    unavailable = scaled(max_unavailable or 0, replicas, round_up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Rollout(replicas, surge, min(unavailable, replicas) if replicas else 0)


def recreating(replicas: int) -> Rollout:
    """All old pods go before the first new one comes."""
    return Rollout(replicas, is_rolling=False)


def grown(rollout: Rollout, new: Generation, every: Iterable[Generation]) -> int:
    """How many pods the new generation may ask for, given what all ask for now; `every` has the new one in it."""
    if not rollout.is_rolling:
        return rollout.replicas
    room = rollout.max_total - sum(each.replicas for each in every)
    return new.replicas + min(room, rollout.replicas - new.replicas) if room > 0 else new.replicas


def shrunk(rollout: Rollout, new: Generation, old: Sequence[Generation]) -> list[Resize]:
    """What the old generations give up now: first pods that are not available, which costs no availability.

    New pods that are not available yet count against it, so that a broken new generation cannot eat up the old one.
    """
    total = new.replicas + sum(each.replicas for each in old)
    most = total - rollout.min_available - (new.replicas - new.available)
    if most <= 0:
        return []
    resizes, after, left = [], [], most
    for each in sorted(old, key=_age):
        broken = min(left, max(each.replicas - each.available, 0))
        after.append(replace(each, replicas=each.replicas - broken))
        if broken > 0:
            resizes.append(Resize(each.name, each.replicas - broken))
            left -= broken
    # A set that was just told to shrink still shows the pods that it is about to lose: they cannot be given up twice.
    spare = new.available + sum(min(each.available, each.replicas) for each in old) - rollout.min_available
    for each in after:
        count = min(each.replicas, spare)
        if count > 0:
            resizes.append(Resize(each.name, each.replicas - count))
            spare -= count
    return resizes


def shared_out(rollout: Rollout, every: Sequence[Generation], current_total: int) -> list[Resize]:
    """The sizes after a Deployment was scaled in the middle of a rollout: each generation keeps its share.

    Otherwise scaling up would all go to the new generation, and hasten a rollout that may be going wrong.
    `current_total` is how many pods there are, for a set that does not know the total its size is a share of.
    """
    active = [each for each in every if each.replicas > 0]
    allowed = rollout.max_total if rollout.replicas > 0 else 0
    to_add = allowed - sum(each.replicas for each in active)
    by_age = sorted(active, key=_age, reverse=to_add > 0)
    by_size = sorted(by_age, key=lambda each: -each.replicas)
    sizes = {each.name: each.replicas for each in by_size}
    left = to_add
    for each in by_size:
        if left:
            share = _share(rollout, each, current_total)
            share = min(share, left) if to_add > 0 else max(share, left)
            sizes[each.name] += share
            left -= share
    # What rounding left over is the largest one's.
    for each in by_size[:1]:
        sizes[each.name] = max(sizes[each.name] + left, 0)
    return [Resize(name, size) for name, size in sizes.items()]


def _share(rollout: Rollout, generation: Generation, current_total: int) -> int:
    """By how much it grows (or shrinks, below 0) in proportion to the whole."""
    if rollout.replicas == 0:
        return -generation.replicas
    before = generation.max_replicas or current_total
    if not before:
        return 0
    exact = generation.replicas * rollout.max_total / before
    # Halves away from zero, as upstream rounds; sizes are never negative.
    return math.floor(exact + 0.5) - generation.replicas


def _age(generation: Generation) -> tuple[str, str]:
    """The oldest first. Times in one form and one zone sort as texts."""
    return generation.created, generation.name
