"""What was decided, told in order: which pod goes when and why, which condition came and went. Of replays and worlds.

Two of them can be put side by side, and one can be compared with what was expected of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jettison.agent.journal.records import Document
from jettison.engine.node.amounts import precise
from jettison.engine.node.signals import ROWS, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.values import frozen

_CONDITION = "condition_changed"


@frozen
class Happening:
    """One line of the story. Two that are equal but for their seconds are the same happening."""

    seconds: float
    # `evict`, `would evict`, `reclaim`, `condition`, or what a world says: `oom kill`, `refused`, …
    what: str
    # A pod, a condition or a filesystem.
    about: str
    node: str = ""
    detail: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is, whenever it was."""
        return self.node, self.what, self.about

    def data(self) -> dict[str, Any]:
        """For JSON; milliseconds are enough to tell two looks apart."""
        seconds = round(self.seconds, 3)
        return {"seconds": seconds, "node": self.node, "what": self.what, "about": self.about, "detail": self.detail}


def happenings(seconds: float, step: Document) -> Iterator[Happening]:
    """Of a step's record."""
    names = {uid: f"{namespace}/{name}" for namespace, name, uid in step["pods"]}
    node, look = step["node"], step["looks"][-1]
    for each in step["looks"]:
        for fact in each["facts"]:
            if fact["event"] == _CONDITION:
                is_true = "True" if fact["is_true"] else "False"
                yield Happening(seconds, "condition", fact["condition"], node, is_true)
    decision = look["decision"]
    starved = decision.get("starved")
    detail = "" if starved is None else _pressure(starved)
    if decision["kind"] == "reclaim":
        yield Happening(seconds, "reclaim", ", ".join(map(str, decision["what"])), node, detail)
    what = "evict" if step["acts"] else "would evict"
    orders = {order["pod"]: order for order in decision.get("evictions", ())}
    for uid in step["evicts"]:
        order = orders.get(uid)
        grace = "" if order is None or order["graceSeconds"] is None else f", {order['graceSeconds']} s of grace"
        why = detail or ("" if order is None else order["message"].strip())
        yield Happening(seconds, what, names.get(uid, uid), node, f"{why}{grace}")


def _pressure(starved: Mapping[str, Any]) -> str:
    resource = ROWS[Signal(starved["signal"])].resource
    kind = "" if starved["isHard"] else "soft "
    return f"{kind}{starved['threshold']}, {precise(starved['available'], resource)} left"


def pressure_text(threshold: Threshold, reading: Reading) -> str:
    """The same, of a decision."""
    kind = "" if threshold.is_hard else "soft "
    return f"{kind}{threshold}, {precise(reading.available, ROWS[threshold.signal].resource)} left"


@frozen
class Pairing:
    """One happening of two stories: in both, or in one of them."""

    one: Happening | None
    two: Happening | None


def side_by_side(one: Sequence[Happening], two: Sequence[Happening]) -> list[Pairing]:
    """Each happening of the first with the same one of the second, in order of time. The n-th of a kind goes with the
    n-th of the same kind.
    """
    others = _numbered(two)
    pairs = [Pairing(each, others.pop(key, None)) for key, each in _numbered(one).items()]
    pairs += [Pairing(None, each) for each in others.values()]
    return sorted(pairs, key=lambda pair: min(each.seconds for each in (pair.one, pair.two) if each is not None))


def _numbered(story: Iterable[Happening]) -> dict[tuple[object, ...], Happening]:
    counts: dict[tuple[object, ...], int] = {}
    found: dict[tuple[object, ...], Happening] = {}
    for each in story:
        key = (*each.key, each.detail if each.what == "condition" else "")
        counts[key] = counts.get(key, 0) + 1
        found[(*key, counts[key])] = each
    return found
