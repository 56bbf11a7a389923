"""What a DaemonSet does next: where it belongs, which pods to make and to delete, and which old pods to replace.

A pod belongs on every node that the set was made for and whose taints it tolerates. Capacity does not count here: that
is the scheduler's business, and a node that is full keeps its daemon pod waiting.

Where upstream walks over a map in random order, here the order of the nodes given decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.scheduling.placement import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, first_untolerated
from jettison.values import frozen

_PREFIX: Final = "node.kubernetes.io/"


def _bears(name: str, effect: str) -> Toleration:
    return Toleration(f"{_PREFIX}{name}", "Exists", "", effect)


AUTOMATIC_TOLERATIONS: Final = (
    _bears("not-ready", NO_EXECUTE),
    _bears("unreachable", NO_EXECUTE),
    _bears("disk-pressure", NO_SCHEDULE),
    _bears("memory-pressure", NO_SCHEDULE),
    _bears("pid-pressure", NO_SCHEDULE),
    _bears("unschedulable", NO_SCHEDULE),
)
"""What every daemon pod bears, in Kubernetes' order: neither a cordon nor a silent node is a reason to leave."""

HOST_NETWORK_TOLERATION: Final = _bears("network-unavailable", NO_SCHEDULE)
"""Only for pods on the host's own network: they may be what makes the network available."""


class Placement(NamedTuple):
    """A node that must not get a new pod may still have to keep the one it has."""

    should_run: bool
    may_stay: bool


NOT_HERE: Final = Placement(should_run=False, may_stay=False)


def place_daemon(taints: Iterable[Taint], tolerations: Sequence[Toleration], *, is_chosen: bool) -> Placement:
    """`is_chosen`: node name, node selector and required affinity of the template choose this node."""
    if not is_chosen:
        return NOT_HERE
    taints = tuple(taints)
    if first_untolerated(taints, tolerations) is None:
        return Placement(should_run=True, may_stay=True)
    evicting = (each for each in taints if each.effect == NO_EXECUTE)
    return Placement(should_run=False, may_stay=first_untolerated(evicting, tolerations) is None)


FIRST_WAIT_NS: Final = 10**9
LONGEST_WAIT_NS: Final = 900 * 10**9


class DaemonWait(NamedTuple):
    """How soon a failed daemon pod may be replaced: a node that rejects its pod would else get one after the other.

    A second after the first failure, twice as long after each further, 15 minutes at most.
    """

    since_ns: int
    length_ns: int

    @classmethod
    def after(cls, before: DaemonWait | None, now_ns: int) -> DaemonWait:
        """It is being replaced: the next failure waits longer."""
        if before is None or before.is_forgotten(now_ns):
            return cls(now_ns, FIRST_WAIT_NS)
        return cls(now_ns, min(2 * before.length_ns, LONGEST_WAIT_NS))

    def is_forgotten(self, now_ns: int) -> bool:
        """It has been quiet for long."""
        return now_ns - self.since_ns > 2 * LONGEST_WAIT_NS

    def left_ns(self, now_ns: int) -> int:
        """How long the failed pod must stay; 0: not any more."""
        return max(self.since_ns + self.length_ns - now_ns, 0)


@frozen
class DaemonGoal:
    """What the set wants of its pods now: this revision, and so many seconds of being Ready.

    `generation` is that of the template, as pods are labelled with it; empty where the set does not tell.
    """

    revision: str
    min_ready_seconds: int = 0
    now_ns: int = 0
    surges: bool = False
    generation: str = ""

    def is_updated(self, pod: ApiPod) -> bool:
        """Whether it was made from the present template. Surprise: one of the two marks is enough, so that a set which
        adopts the pods of another keeps them where both count the same generation, whatever their templates.
        """
        return pod.revision == self.revision or (bool(self.generation) and pod.template_generation == self.generation)

    def is_available(self, pod: ApiPod) -> bool:
        """Whether it serves."""
        return pod.is_available(self.min_ready_seconds, self.now_ns)


class Needs(NamedTuple):
    """What one node needs. Ended pods are deleted apart, for a node that rejects its pod must not be hurried."""

    creates: bool = False
    surplus: tuple[ApiPod, ...] = ()
    ended: tuple[ApiPod, ...] = ()


class Update(NamedTuple):
    """What a rolling update may do now."""

    create_on: tuple[str, ...] = ()
    delete: tuple[ApiPod, ...] = ()


class Counts(NamedTuple):
    """The numbers of a status."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


def is_of_interest(pod: ApiPod) -> bool:
    """One that has ended and is being deleted waits only for a finalizer: its node may get the next one."""
    return not (pod.is_terminating and pod.is_ended)


def needs_of(goal: DaemonGoal, placement: Placement, pods: Sequence[ApiPod]) -> Needs:
    """One node. A pod that is terminating still holds the place of the next one, unless the set surges."""
    if placement.should_run and not pods:
        return Needs(creates=True)
    staying = [pod for pod in pods if not pod.is_terminating]
    if not placement.may_stay:
        return Needs(surplus=tuple(staying))
    ended = tuple(pod for pod in staying if pod.is_ended)
    running = sorted((pod for pod in staying if not pod.is_ended), key=_seniority)
    if not goal.surges:
        return Needs(surplus=tuple(running[1:]), ended=ended)
    if len(running) <= 1:
        return Needs(creates=not running and placement.should_run, ended=ended)
    return Needs(surplus=tuple(_surplus_of_surge(goal, running)), ended=ended)


def _surplus_of_surge(goal: DaemonGoal, running: Sequence[ApiPod]) -> Iterator[ApiPod]:
    """One new and one old pod may be there together, while the old one is Ready and the new one not yet available."""
    new = next((pod for pod in running if goal.is_updated(pod)), None)
    old = next((pod for pod in running if not goal.is_updated(pod)), None)
    yield from (pod for pod in running if pod is not new and pod is not old)
    if new is not None and old is not None and (not old.is_ready or goal.is_available(new)):
        yield old


def counts_of(goal: DaemonGoal, placements: Mapping[str, Placement], pods: Mapping[str, Sequence[ApiPod]]) -> Counts:
    """Of several pods on a node the eldest counts."""
    counts = Counts()
    for node, placement in placements.items():
        found = sorted(pods.get(node, ()), key=_seniority)
        if not placement.should_run:
            counts = counts._replace(misscheduled=counts.misscheduled + bool(found))
            continue
        pod = found[0] if found else None
        is_ready = pod is not None and pod.is_ready
        counts = Counts(
            counts.desired + 1,
            counts.current + (pod is not None),
            counts.misscheduled,
            counts.ready + is_ready,
            counts.updated + (pod is not None and goal.is_updated(pod)),
            counts.available + (pod is not None and goal.is_available(pod)),
        )
    return counts


def update_in_place(goal: DaemonGoal, pods: Mapping[str, Sequence[ApiPod]], max_unavailable: int) -> Update:
    """Without surge: delete old pods, as many as may be unavailable; an old pod that already is goes in any case.

    `pods` has an entry, be it an empty one, for every node that should run a pod.
    """
    unavailable = 0
    broken: list[ApiPod] = []
    candidates: list[ApiPod] = []
    for found in pods.values():
        new, old = _split(goal, found)
        if len(new) + len(old) != 1:
            unavailable += 1  # none, or too many: the regular care for the node comes first
        elif new:
            unavailable += not goal.is_available(new[0])
        elif not goal.is_available(old[0]):
            broken.append(old[0])
            unavailable += 1
        else:
            candidates.append(old[0])
    return Update(delete=(*broken, *candidates[: max(max_unavailable - unavailable, 0)]))


def update_with_surge(
    goal: DaemonGoal,
    pods: Mapping[str, Sequence[ApiPod]],
    placements: Mapping[str, Placement],
    max_surge: int,
    desired: int,
) -> Update:
    """Make new pods beside the old ones, at most `max_surge` at a time, and delete an old one when its heir serves.

    Where the set no longer belongs, the old pod stays until as many as desired are available elsewhere.
    """
    surge = available = 0
    create: list[str] = []
    candidates: list[str] = []
    delete: list[ApiPod] = []
    leaving: list[ApiPod] = []
    for node, found in pods.items():
        new, old = _split(goal, found)
        if len(new) > 1 or len(old) > 1:
            surge += 1
            continue
        available += any(goal.is_available(pod) for pod in (old or new))
        if not old:
            continue
        should_run = placements.get(node, NOT_HERE).should_run
        if new and goal.is_available(new[0]):
            delete.append(old[0])
        elif new:
            surge += 1
        elif not should_run:
            (leaving if goal.is_available(old[0]) else delete).append(old[0])
        else:
            (candidates if goal.is_available(old[0]) else create).append(node)
    delete += leaving[: max(available - desired, 0)]
    return Update((*create, *candidates[: max(max_surge - surge, 0)]), tuple(delete))


def _split(goal: DaemonGoal, pods: Iterable[ApiPod]) -> tuple[list[ApiPod], list[ApiPod]]:
    """Up to date and old, without those that are going."""
    staying = [pod for pod in pods if not pod.is_terminating]
    return [pod for pod in staying if goal.is_updated(pod)], [pod for pod in staying if not goal.is_updated(pod)]


def _seniority(pod: ApiPod) -> tuple[bool, int, str]:
    """A pod with a node comes before one that waits for a node, then the older one."""
    return not pod.node, pod.created_ns, pod.name
