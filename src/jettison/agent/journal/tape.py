"""A node while it is recorded: everything that its steps depend on, as lines of JSON from which they can be repeated.

    {"k": "begin", "version": 1, "program", "node", "source", "acts", "at", "policy", "history", "trends"}
    {"k": "pod", "i": number, "pod": {…}}          what the engine reads of a pod, before the first look that has it
    {"k": "look", "at", "alarm", "now", "node", "pods": [i, …], "usages", "layout", "endings", "told"}
    {"k": "failed", "why"}                         the node could not be measured
    {"k": "interrupted"}                           a reclaim was not waited for: no second look follows
    {"k": "policy", "policy"}                      in force from here on
    {"k": "step", "crc", "bytes"}                  a step went to the journal: sum and length of its JSON
    {"k": "fact", "record"}                        another record of the journal, whole

`at` has the wall clock, the monotonic and the steady one, in nanoseconds. Measurements are arrays in the order of the
fields of `engine/node/snapshot`; `usages` has them by the pod's number. No environment, no command and no label is in a
`Pod`, so none can be in a recording.

They are handed over in frames as the journal's (`files.py`): length, CRC-32, and lines, compressed. A file
(`simulator/recordings.py`) is `MAGIC` and such frames, so what was torn at its end costs no more than the last one.

The agent only appends a tuple to a list. Lines are made in a thread, and what is not fetched is dropped with the whole
recording: a reader that has gone away costs a node 1 MiB for a minute.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import msgspec

from jettison import __version__
from jettison.agent.agent import Agent, TapedLook
from jettison.agent.journal.files import frame
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.policy_records import policy_record
from jettison.agent.journal.records import STEP
from jettison.clock import Clock, Stamp
from jettison.engine.config.policy import Policy
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.node.survival import Trends
from jettison.engine.pods.pod import Pod
from jettison.manifests.history import SavedHistory, encode_history
from jettison.manifests.pod_writer import pod_document
from jettison.runtimes.protocol import EndingPod

MAGIC = b"jettrec1"
VERSION = 1

MOST_BYTES = 2**20
"""Compressed, and not fetched: 20 minutes of a node with 110 pods on which a pod is on its way out."""

_MOST_LINES = 32
"""Events that wait to be made into lines: each may hold a snapshot."""

LONGEST_SILENCE_NS = 60 * 10**9
"""A reader asks once a second. On a starving node it may be late."""

Line = dict[str, Any]


class Lines:
    """Makes lines. A pod is written once, and named by a number from then on."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Pod, int]] = {}
        self._count = 0

    def begin(
        self, node: str, source: str, at: Stamp, policy: Policy, history: History, trends: Trends, *, acts: bool
    ) -> Line:
        """The first line."""
        return {
            "k": "begin",
            "version": VERSION,
            "program": __version__,
            "node": node,
            "source": source,
            "acts": acts,
            "at": at,
            "policy": policy_record(policy),
            # Not as it is on disk, which has many lines.
            "history": msgspec.json.decode(encode_history(SavedHistory(history, node))),
            "trends": [(each.signal.value, each.reading, each.fall_per_second) for each in trends.values()],
        }

    def policy(self, policy: Policy) -> list[Line]:
        """Another one is in force."""
        return [{"k": "policy", "policy": policy_record(policy)}]

    def look(self, look: TapedLook) -> list[Line]:
        """With the pods that were not written yet."""
        lines: list[Line] = []
        numbers = {pod.uid: self._number(pod, lines) for pod in look.snapshot.pods}
        snapshot, alarm = look.snapshot, look.alarm
        for each in look.endings:
            self._number(each.eviction.pod, lines)
        lines.append(
            {
                "k": "look",
                "at": look.at,
                "alarm": None if alarm is None else (alarm.source, alarm.raised_ns),
                "now": snapshot.now_ns,
                "node": snapshot.node,
                "pods": list(numbers.values()),
                "usages": self._usages(snapshot, numbers),
                "layout": (snapshot.layout.has_image_fs, snapshot.layout.is_split),
                "endings": [self._ending(each) for each in look.endings],
                "told": look.told,
            }
        )
        return lines

    def _usages(self, snapshot: Snapshot, numbers: Mapping[str, int]) -> list[tuple[object, ...]]:
        """Those of pods that are listed, in their order; a record names no others either, but by their uids."""
        return [(numbers.get(uid, uid), usage) for uid, usage in snapshot.usages.items()]

    def _number(self, pod: Pod, lines: list[Line]) -> int:
        kept = self._pods.get(pod.uid)
        if kept is None or kept[0] is not pod:
            kept = self._pods[pod.uid] = (pod, self._count)
            lines.append({"k": "pod", "i": self._count, "pod": pod_document(pod)})
            self._count += 1
        return kept[1]

    def _ending(self, ending: EndingPod) -> Sequence[object]:
        order = ending.eviction
        times = ending.ordered_ns, ending.began_ns, ending.stopped_ns
        return (*times, order.pod.uid, order.grace_seconds, order.signal, order.reason, order.is_at_once)


def joined_lines(lines: Iterable[Line]) -> bytes:
    """Each with its end."""
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(line) + b"\n" for line in lines)


class NodeTape:
    """The agent's `Tape`, and the journal's listener, until it is fetched no more."""

    def __init__(self, agent: Agent, journal: Journal, clock: Clock, node: str, executor: Executor) -> None:
        self._agent = agent
        self._journal = journal
        self._clock = clock
        self._executor = executor
        self._lines = Lines()
        self._waiting: list[Callable[[], list[Line]]] = []
        self._frames: list[bytes] = []
        self._fetched_ns = clock.monotonic_ns()
        # Why there will be no more; empty while there will.
        self.end = ""
        at, policy, history, trends = Stamp.of(clock), agent.policy, agent.history, agent.trends
        acts = not agent.is_dry_run
        self._add(lambda: [self._lines.begin(node, "agent", at, policy, history, trends, acts=acts)])
        agent.tape, journal.listener = self, self.written

    def looked(self, look: TapedLook) -> None:
        """One look."""
        self._add(lambda: self._lines.look(look))

    def failed(self, why: str) -> None:
        """No look."""
        self._add(lambda: [{"k": "failed", "why": why}])

    def interrupted(self) -> None:
        """No second look."""
        self._add(lambda: [{"k": "interrupted"}])

    def uses(self, policy: Policy) -> None:
        """From the next look on."""
        self._add(lambda: self._lines.policy(policy))

    def written(self, record: Mapping[str, Any], document: bytes) -> None:
        """A record of the journal. Of a step its sum will do: it follows from the looks."""
        if record["kind"] == STEP:
            self._add(lambda: [{"k": "step", "crc": zlib.crc32(document), "bytes": len(document)}])
        else:
            self._add(lambda: [{"k": "fact", "record": msgspec.Raw(document)}])

    def fetch(self) -> Future[bytes]:
        """All frames that were not fetched yet, made in the executor's only thread: in the order of the events."""
        self._fetched_ns = self._clock.monotonic_ns()
        return self._executor.submit(self._fetch, self._taken())

    def _fetch(self, waiting: list[Callable[[], list[Line]]]) -> bytes:
        self._make(waiting)
        frames, self._frames = self._frames, []
        return b"".join(frames)

    def stop(self, why: str = "it was stopped") -> None:
        """Note nothing more; what was noted can still be fetched."""
        if not self.end:
            self.end = why
            self._agent.tape = self._journal.listener = None

    def _add(self, line: Callable[[], list[Line]]) -> None:
        self._waiting.append(line)
        if self._clock.monotonic_ns() - self._fetched_ns > LONGEST_SILENCE_NS:
            self.stop(f"it was not fetched for {LONGEST_SILENCE_NS // 10**9} s")
            self._frames, self._waiting = [], []
        elif len(self._waiting) >= _MOST_LINES:
            self._executor.submit(self._make, self._taken())

    def _taken(self) -> list[Callable[[], list[Line]]]:
        taken, self._waiting = self._waiting, []
        return taken

    def _make(self, waiting: list[Callable[[], list[Line]]]) -> None:
        lines = [line for each in waiting for line in each()]
        if lines and not self._is_full():
            self._frames.append(frame(joined_lines(lines)))

    def _is_full(self) -> bool:
        is_full = sum(map(len, self._frames)) > MOST_BYTES
        if is_full:
            self.stop(f"more than {MOST_BYTES} bytes were not fetched")
        return is_full
