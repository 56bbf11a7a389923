"""Facts as numbers: the kubelet's metrics under the kubelet's names, and ours for what the kubelet does not measure.

Alerts written for a kubelet work unchanged. Label values come from fixed sets, because a label that a pod can choose
would let a pod fill the memory of the Prometheus server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from jettison import events
from jettison.agent.http.exposition import Counter, Family, Gauge, Histogram, exposition
from jettison.engine.node import facts
from jettison.engine.node import local_storage as limits
from jettison.engine.node.evictions import BY_HAND, EVICTED, Eviction
from jettison.engine.node.facts import RemovalReason
from jettison.engine.node.signals import Condition, Signal
from jettison.engine.pods.preemption import PREEMPTING
from jettison.events import Fact
from jettison.runtimes.protocol import CLOSE_ALARM

STATS_AGE_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LATENCY_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# Every reason that the kubelet counts under its own name; the others are one.
KNOWN_REJECTIONS = frozenset(
    {
        EVICTED,
        "AppArmor",
        "InitContainerRestartPolicyForbidden",
        "InvalidNodeInfo",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfephemeral-storage",
        "OutOfmemory",
        "OutOfpods",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "node(s) had taints that the pod didn't tolerate",
    }
)
_FAILURES = (events.ActionFailed, events.KillFailed, events.CollectionFailed, events.LimitsRefused)
KNOWN_ALARMS = frozenset({"memcg", "psi", "poll", CLOSE_ALARM, "oom", "pods"})

KNOWN_EVICTIONS = (*Signal, limits.EMPTY_DIR, limits.POD, limits.CONTAINER, BY_HAND)
KNOWN_PREEMPTIONS = ("cpu", "ephemeral-storage", "memory", "pods")
_OTHER_REJECTIONS = ("OutOfExtendedResources", "Other")

MOST_COUNTED = 1000
"""A pod whose end takes too long is never reported as cleared away; such ones must not pile up."""


class Metrics:
    """The sink, and what `/metrics` answers. `conditions` are those that an earlier agent left behind."""

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        self._evictions = Counter(
            "kubelet_evictions", "Pods evicted, by what ran short.", "eviction_signal", known=KNOWN_EVICTIONS
        )
        self._stats_age = Histogram(
            "kubelet_eviction_stats_age_seconds",
            "Age of the readings that a pod was evicted for.",
            STATS_AGE_BOUNDS,
            "eviction_signal",
            Signal,
        )
        self._preemptions = Counter(
            "kubelet_preemptions",
            "Pods that made room for a critical one.",
            "preemption_signal",
            known=KNOWN_PREEMPTIONS,
        )
        self._images = Counter(
            "kubelet_image_garbage_collected_total", "Images removed, by why.", "reason", known=RemovalReason
        )
        self._rejections = Counter(
            "kubelet_admission_rejections_total",
            "Pods that were not admitted, by why.",
            "reason",
            known=(*KNOWN_REJECTIONS, *_OTHER_REJECTIONS),
        )
        self._decision = Histogram(
            "jettison_decision_latency_seconds", "From the alarm or tick to the first signal.", LATENCY_BOUNDS
        )
        self._kill = Histogram(
            "jettison_kill_latency_seconds", "From the first signal until all containers had stopped.", LATENCY_BOUNDS
        )
        self._alarms = Counter(
            "jettison_alarms_total", "Reasons to look at once, by what raised them.", "source", known=KNOWN_ALARMS
        )
        self._ooms = Counter(
            "jettison_oom_kills_total",
            "Processes the kernel killed for want of memory.",
            "scope",
            known=("node", "pod"),
        )
        self._timeouts = Counter("jettison_eviction_timeouts_total", "Pods that did not stop in time.")
        self._observation_failures = Counter(
            "jettison_observation_failures_total", "Looks at the node that gave no answer."
        )
        self._action_failures = Counter("jettison_action_failures_total", "Things that could not be done.")
        self._reclaimed = Counter(
            "jettison_reclaimed_total", "Things removed without harming a pod.", "kind", known=("containers", "images")
        )
        self._reclaimed_bytes = Counter("jettison_reclaimed_bytes_total", "What that freed.")
        self._conditions = Gauge("jettison_node_condition", "1 while the node reports the condition.", "condition")
        reported = set(conditions)
        for condition in Condition:
            self._conditions.set(condition.value, int(condition in reported))
        self._families: list[Family] = [each for each in vars(self).values() if isinstance(each, Family)]
        # A pod that did not stop in time may be said to have stopped later.
        self._counted: set[str] = set()

    def watch(self, name: str, meaning: str, read: Callable[[], float], kind: str = "counter") -> None:
        """Show a number that is kept elsewhere, as it is at the moment of the request."""
        self._families.append(Family(name, kind, meaning, lambda: [(name, (), read())]))

    def watch_each(self, name: str, meaning: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """The same for several gauges, by the values of a label."""
        self._families.append(
            Family(name, "gauge", meaning, lambda: [(name, ((label, each),), value) for each, value in read().items()])
        )

    def text(self) -> str:
        """Prometheus' text format."""
        return exposition(self._families)

    def take(self, fact: Fact, time_ns: int) -> None:  # noqa: ARG002  a counter has no use for the time
        """Count it."""
        if isinstance(fact, events.EvictionStarted):
            if fact.decided_ns is not None:
                self._decision.observe(fact.decided_ns / 10**9)
        elif isinstance(fact, events.PodEvicted):
            self._kill.observe(fact.took_ns / 10**9)
            self._count_eviction(fact.eviction, has_stopped=True)
        elif isinstance(fact, events.EvictionTimedOut):
            self._timeouts.add()
            self._count_eviction(fact.eviction, has_stopped=False)
        elif isinstance(fact, facts.PodsRanked):
            for signal, age_ns in fact.stats_age_ns.items():
                self._stats_age.observe(age_ns / 10**9, signal.value)
        elif isinstance(fact, facts.ConditionChanged):
            self._conditions.set(fact.condition.value, int(fact.is_true))
        else:
            self._count(fact)

    def _count(self, fact: Fact) -> None:
        if isinstance(fact, events.PodCleanedUp):
            self._counted.discard(fact.pod.uid)
        elif isinstance(fact, events.PodRejected):
            self._rejections.add(_rejection(fact.reason))
        elif isinstance(fact, events.AlarmRaised):
            self._alarms.add(fact.source if fact.source in KNOWN_ALARMS else "other")
        elif isinstance(fact, events.OutOfMemoryKill):
            self._ooms.add("node" if fact.pod is None else "pod", fact.kills)
        elif isinstance(fact, events.ObservationFailed):
            self._observation_failures.add()
        elif isinstance(fact, _FAILURES):
            self._action_failures.add()
        elif isinstance(fact, events.ImageRemoved):
            self._images.add(fact.reason.value)
        elif isinstance(fact, events.ReclaimFinished):
            self._reclaimed.add("containers", fact.containers)
            self._reclaimed.add("images", fact.images)
            self._reclaimed_bytes.add(amount=fact.freed_bytes)

    def _count_eviction(self, eviction: Eviction, *, has_stopped: bool) -> None:
        if eviction.pod.uid in self._counted:
            return
        if len(self._counted) >= MOST_COUNTED:
            self._counted.clear()
        self._counted.add(eviction.pod.uid)
        if eviction.reason != PREEMPTING:
            self._evictions.add(eviction.signal)
        elif has_stopped:
            self._preemptions.add(eviction.signal)


def _rejection(reason: str) -> str:
    if reason in KNOWN_REJECTIONS:
        return reason
    return "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"
