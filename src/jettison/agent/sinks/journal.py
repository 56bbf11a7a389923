"""What happened besides decisions goes into the journal, next to the steps.

What a decision has to say is part of its step's record. What a pod repeats without an end is left out as well
(starts, probes, back-offs): in a bounded journal it would push out the reasons why pods were evicted.
"""

from __future__ import annotations

from jettison import events
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.records import fact_record
from jettison.engine.node.facts import GraceCutShort
from jettison.events import Fact

RECORDED = (
    events.AgentStarted,
    events.AgentStopped,
    events.ObservationFailed,
    events.ReclaimFinished,
    events.ImageRemoved,
    events.CollectionFailed,
    events.BallastKept,
    events.BallastGivenUp,
    events.LimitsRefused,
    events.ContainerRuntimeLost,
    events.ContainerRuntimeAnswered,
    events.EvictionStarted,
    events.PodEvicted,
    GraceCutShort,
    events.EvictionTimedOut,
    events.EvictionWithdrawn,
    events.PodEndSeen,
    events.DeadlineExceeded,
    events.KillFailed,
    events.PodCleanedUp,
    events.PodAdmitted,
    events.PodRejected,
    events.ContainerFinished,
    events.OutOfMemoryKill,
    events.SettingChanged,
    events.RestartNeeded,
    events.ReloadFailed,
    events.ServingCertificateTaken,
    events.ActionFailed,
)

_FAILURES = (
    events.ObservationFailed,
    events.ActionFailed,
    events.KillFailed,
    events.CollectionFailed,
    events.LimitsRefused,
)

REPEAT_NS = 60 * 10**9
"""A failure that goes on is recorded once a minute, though it may happen fifty times a second."""


class JournalSink:
    """Writes facts down; a bad disk is counted by the journal."""

    def __init__(self, journal: Journal, node: str) -> None:
        self._journal = journal
        self._node = node
        self._failures: dict[type[Fact], tuple[Fact, int]] = {}

    def take(self, fact: Fact, time_ns: int) -> None:
        """Write it down if it is one to keep."""
        if isinstance(fact, RECORDED) and not self._is_repeated(fact, time_ns):
            self._journal.append(fact_record(fact, time_ns, self._node))

    def _is_repeated(self, fact: Fact, time_ns: int) -> bool:
        if not isinstance(fact, _FAILURES):
            return False
        last = self._failures.get(type(fact))
        if last is not None and last[0] == fact and 0 <= time_ns - last[1] < REPEAT_NS:
            return True
        self._failures[type(fact)] = (fact, time_ns)
        return False
