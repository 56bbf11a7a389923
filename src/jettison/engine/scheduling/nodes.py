"""Nodes as the scheduler sees them: what each offers, which pods are there, and the sums of what they take.

The sums are kept as pods come and go, never counted anew: 500 pods on 10 nodes would otherwise be added up 5,000
times. That makes these the only values of the engine that change; their owner tells them of every event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Self

from jettison.engine.scheduling.placement import Taint
from jettison.engine.scheduling.pods import Key, PlaceablePod, PodClaim
from jettison.values import frozen


@frozen
class NodeRoom:
    """What a node can give to pods (its allocatable), cpu in thousandths."""

    cpu: int = 0
    memory: int = 0
    storage: int = 0
    pods: int = 0
    others: Mapping[str, int] = field(default_factory=dict)


@frozen
class NodeOffer:
    """A node without its pods. Two that are equal are equally good for every pod."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    room: NodeRoom = NodeRoom()


class Tally:
    """What some pods take together."""

    __slots__ = ("cpu", "memory", "others", "pods", "scored_cpu", "scored_memory", "storage")

    def __init__(self) -> None:
        self.cpu = self.memory = self.storage = self.pods = self.scored_cpu = self.scored_memory = 0
        self.others: dict[str, int] = {}

    def add(self, claim: PodClaim, sign: int = 1) -> None:
        """One pod more; with a sign of -1, one less."""
        self.pods += sign
        self.cpu += sign * claim.cpu
        self.memory += sign * claim.memory
        self.storage += sign * claim.storage
        self.scored_cpu += sign * claim.scored_cpu
        self.scored_memory += sign * claim.scored_memory
        for name, amount in claim.others:
            self.others[name] = self.others.get(name, 0) + sign * amount

    def copy(self) -> Self:
        """One to try something out with."""
        other = type(self)()
        other.cpu, other.memory, other.storage, other.pods = self.cpu, self.memory, self.storage, self.pods
        other.scored_cpu, other.scored_memory = self.scored_cpu, self.scored_memory
        other.others = dict(self.others)
        return other


class NodeLoad:
    """One node with its pods, bound or about to be, and those that other pods are being removed for."""

    def __init__(self, offer: NodeOffer) -> None:
        self.offer = offer
        self.pods: dict[Key, PlaceablePod] = {}
        self.nominated: dict[Key, PlaceablePod] = {}
        self.tally = Tally()
        # How many pods of each group are here to stay.
        self.groups: dict[str, int] = {}

    def put(self, pod: PlaceablePod) -> None:
        """It is here; if it was already, this is what it is like now."""
        self.remove(pod.key)
        self.pods[pod.key] = pod
        self._count(pod, 1)

    def remove(self, key: Key) -> None:
        """It is not here (any more)."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._count(pod, -1)

    def tally_for(self, pod: PlaceablePod) -> Tally:
        """What is taken from this pod's point of view: a place that is being made for one as important is taken."""
        others = [each for key, each in self.nominated.items() if key != pod.key and each.priority >= pod.priority]
        if not others:
            return self.tally
        tally = self.tally.copy()
        for each in others:
            tally.add(each.claim)
        return tally

    def _count(self, pod: PlaceablePod, sign: int) -> None:
        self.tally.add(pod.claim, sign)
        if pod.group and not pod.is_terminating:
            count = self.groups.get(pod.group, 0) + sign
            if count:
                self.groups[pod.group] = count
            else:
                del self.groups[pod.group]


class Changes:
    """What has happened to a cluster since a reader last looked."""

    __slots__ = ("is_other_nodes", "names")

    def __init__(self) -> None:
        # Nodes that have other pods now.
        self.names: set[str] = set()
        # A node came, went, or offers something else.
        self.is_other_nodes = False


class ClusterLoad:
    """All nodes. Pods of a node that is not known yet are kept until it is."""

    def __init__(self) -> None:
        self._readers: list[Changes] = []
        self._loads: dict[str, NodeLoad] = {}
        self._known: set[str] = set()
        self._places: dict[Key, str] = {}
        self._nominations: dict[Key, str] = {}

    @property
    def loads(self) -> Iterable[NodeLoad]:
        """Of the nodes that there are, in order of their names."""
        return [self._loads[name] for name in sorted(self._known)]

    def note_changes(self) -> Changes:
        """From now on until `stop_noting`, for a reader that keeps what it has found out about nodes."""
        self._readers.append(Changes())
        return self._readers[-1]

    def stop_noting(self, changes: Changes) -> None:
        """The reader is gone."""
        self._readers.remove(changes)

    def load(self, name: str) -> NodeLoad | None:
        """One of them."""
        return self._loads[name] if name in self._known else None

    def set_node(self, offer: NodeOffer) -> bool:
        """There is such a node; whether that is news."""
        load = self._of(offer.name)
        is_new = offer.name not in self._known or load.offer != offer
        load.offer = offer
        self._known.add(offer.name)
        if is_new:
            self._note_other_nodes()
        return is_new

    def drop_node(self, name: str) -> None:
        """There is no such node any more; its pods stay in the API for a while."""
        self._known.discard(name)
        self._note_other_nodes()
        self._tidy(name)

    def put(self, pod: PlaceablePod) -> None:
        """The pod is on its node, and waits for none."""
        if self._places.get(pod.key) != pod.node:
            self.remove(pod.key)
        self.withdraw(pod.key)
        self._places[pod.key] = pod.node
        self._of(pod.node).put(pod)
        self._note(pod.node)

    def place_of(self, key: Key) -> str:
        """Where it is; empty if nowhere."""
        return self._places.get(key, "")

    def remove(self, key: Key) -> bool:
        """The pod is on no node; whether it was on one, so that there is more room now."""
        name = self._places.pop(key, None)
        if name is None:
            return False
        self._loads[name].remove(key)
        self._note(name)
        self._tidy(name)
        return True

    def nominate(self, pod: PlaceablePod, node: str) -> None:
        """Others are going there so that this pod can come."""
        self.withdraw(pod.key)
        self._nominations[pod.key] = node
        self._of(node).nominated[pod.key] = pod
        self._note(node)

    def withdraw(self, key: Key) -> bool:
        """No pod goes for it (any more); whether one did, so that others may come there."""
        former = self._nominations.pop(key, None)
        if former is None:
            return False
        self._loads[former].nominated.pop(key, None)
        self._note(former)
        self._tidy(former)
        return True

    def nomination_of(self, key: Key) -> str:
        """Where it is waiting for others to go; empty if nowhere."""
        return self._nominations.get(key, "")

    def _note(self, name: str) -> None:
        if name in self._known:
            for each in self._readers:
                each.names.add(name)

    def _note_other_nodes(self) -> None:
        for each in self._readers:
            each.is_other_nodes = True

    def _of(self, name: str) -> NodeLoad:
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = NodeLoad(NodeOffer(name))
        return load

    def _tidy(self, name: str) -> None:
        load = self._loads.get(name)
        if load is not None and name not in self._known and not load.pods and not load.nominated:
            del self._loads[name]
