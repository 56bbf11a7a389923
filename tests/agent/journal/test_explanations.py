"""Why a pod went, or stayed: told from the journal alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from jettison import events
from jettison.agent.agent import AgentStep
from jettison.agent.amounts import span
from jettison.agent.journal.explanations import explain
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import PodQuery
from jettison.agent.journal.recorder import JournalRecorder
from jettison.agent.journal.stories import story_of
from jettison.agent.sinks.journal import JournalSink
from jettison.clock import Stamp
from jettison.engine.node.decide import Evict, decide
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import GraceCutShort
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats, NodeStats, PodUsage, Snapshot, VolumeUsage
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Pod, Volume
from jettison.engine.pods.preemption import preemption_of
from jettison.events import Fact
from jettison.runtimes.protocol import Alarm
from tests.agent.scripted_runtime import HandClock
from tests.builders import GI, MI, filesystem, memory_used, node, pod, policy, snapshot

POLICY = policy({"memory.available": "100Mi", "nodefs.available": "10Gi", "pid.available": "100"})
NOON_NS = 1893456000 * 10**9

LOW = pod("low", -5, memory="64Mi")
LEAK = pod("leak")
WEB = pod("web", memory="64Mi")
DNS = replace(pod("dns", 2_000_000_000), namespace="kube-system")
PODS = [DNS, LEAK, LOW, WEB]
USAGES = {
    "low": memory_used(65 * MI),
    "leak": memory_used(300 * MI),
    "web": memory_used(60 * MI),
    "dns": memory_used(MI),
}
STARVED = snapshot(1893456000, node(memory=96 * MI, capacity=512 * MI, time_s=9), PODS, USAGES)


class Node:
    """Everything that writes to a journal, driven by hand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = HandClock()
        self.clock.time_ns = NOON_NS
        self.journal = Journal.open(directory)
        self.sink = JournalSink(self.journal, "node1")
        self.history = History()
        self.is_dry_run = False

    def look(
        self, seen: Snapshot, alarm: Alarm | None = None, *, has_effect: bool = True, instead: Sequence[str] = ()
    ) -> list[Eviction]:
        recorder = JournalRecorder(
            self.journal,
            self.directory / "history.json",
            POLICY,
            self.clock,
            "node1",
            self.say,
            is_dry_run=self.is_dry_run,
        )
        while True:
            outcome = decide(POLICY, self.history, seen)
            recorder.step(AgentStep(self.history, seen, outcome, alarm, Stamp.of(self.clock), has_effect, instead))
            self.history = outcome.history
            if isinstance(outcome.decision, Evict):
                return list(outcome.decision.evictions)
            if self.history.reclaiming is None:
                return []
            self.say(events.ReclaimFinished(3, 0, 120 * MI, ("one is busy",)))

    def say(self, fact: Fact, after_seconds: float = 0) -> None:
        self.clock.pass_seconds(after_seconds)
        self.sink.take(fact, self.clock.now_ns())

    def why(self, pod_: str) -> list[str]:
        story = story_of(self.directory, PodQuery.parse(pod_))
        assert story is not None
        return explain(story)


@pytest.fixture
def the(tmp_path: Path) -> Iterator[Node]:
    node_ = Node(tmp_path)
    yield node_
    node_.journal.close()


def evict(the: Node, seen: Snapshot = STARVED) -> Eviction:
    alarm = Alarm("memcg", the.clock.monotonic_ns())
    the.clock.pass_seconds(0.0012)
    eviction = the.look(seen, alarm)[0]
    the.say(events.EvictionStarted(eviction, 2_300_000))
    return eviction


def test_an_eviction_is_told_from_the_alarm_to_the_clean_up(the: Node) -> None:
    eviction = evict(the)
    # What it took counts from the signal; the record of the start is 0.2 s younger.
    the.say(events.PodEvicted(eviction, 1_900_000_000), 1.7)
    the.say(events.PodCleanedUp(eviction.pod), 0.1)

    assert the.why("default/low") == [
        "default/low was evicted at 2030-01-01T00:00:00Z",
        "  uid       low",
        "  because   memory.available was 96Mi of 512Mi, below the hard threshold of 100Mi",
        "  noticed   by memcg, decided and on record 1.2 ms later",
        "  before    nothing could be freed without ending a pod",
        "  order     1 of 4 for memory.available",
        "            → 1.  default/low      uses 65Mi   asked 64Mi  over its request    priority -5",
        "              2.  default/leak     uses 300Mi  asked 0     over its request    priority 0",
        "              3.  kube-system/dns  uses 1Mi    asked 0     over its request    priority 2000000000  critical",
        "              4.  default/web      uses 60Mi   asked 64Mi  within its request  priority 0",
        "            before default/leak because its priority is lower: -5 against 0",
        "  grace     1 s",
        f"  message   {eviction.message.strip()}",
        "  signal    sent 2.3 ms after the alarm or tick that began the look",
        "  ended     1.9 s later",
        "  cleared   nothing of it was left 2.0 s after the signal",
    ]


def test_allocatable_memory_is_explained_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """24Gi, of which 20Gi are reserved: pods go while the node has plenty."""
    monkeypatch.setattr(f"{__name__}.POLICY", policy({"memory.available": "2Gi"}, guards_allocatable=True))
    stats = replace_pods_memory(node(memory=21 * GI, capacity=24 * GI, time_s=9), left=GI, limit=4 * GI)
    node_ = Node(tmp_path)
    evict(node_, snapshot(1893456000, stats, PODS, USAGES))

    because, share, free = node_.why("low")[2:5]
    assert because == "  because   allocatableMemory.available was 1Gi of 4Gi, below the hard threshold of 2Gi"
    assert share.strip() == (
        "allocatable memory is what pods may use together, 4Gi: 24Gi less 20Gi reserved for the system"
    )
    assert free.strip().startswith(
        "the node itself had 21Gi available, which pods may not use; a smaller systemReserved"
    )
    assert "allocatable memory is what pods may use together, 4Gi" in node_.why("leak")[3]
    node_.journal.close()


def replace_pods_memory(stats: NodeStats, *, left: int, limit: int) -> NodeStats:
    used = MemoryStats(stats.memory.time_ns if stats.memory else None, left, limit - left, limit - left)
    return stats._replace(pods_memory=used, has_pods_container=True)


def test_a_grace_period_that_was_cut_short_says_why(the: Node) -> None:
    eviction = evict(the)
    the.say(GraceCutShort(eviction.pod, Signal.MEMORY_AVAILABLE, 400_000_000, 2, 38 * MI, 150 * MI), 0.4)
    the.say(events.PodEvicted(eviction, 420_000_000), 0.02)

    assert "  hurried   killed after 0.4 s of its 2 s: 38Mi were left of memory.available and fell by 150Mi/s" in (
        the.why("low")
    )


def test_a_pod_that_was_killed_at_once_is_told_so(the: Node) -> None:
    eviction = the.look(STARVED)[0]
    the.say(events.EvictionStarted(replace(eviction, is_at_once=True), 2_300_000))
    hurried = "  hurried   killed at once and not asked: past a hard threshold this profile leaves no time"
    assert hurried in the.why("low")


def test_an_eviction_that_was_taken_over_says_so(the: Node) -> None:
    """And a clock that was set back meanwhile does not hide its end."""
    eviction = the.look(STARVED)[0]
    the.say(events.EvictionStarted(eviction, None))
    the.say(events.PodEvicted(eviction, 1_900_000_000), -3600)

    lines = the.why("low")
    assert "  signal    sent by an agent that ended right then; the next one took the eviction over" in lines
    assert "  ended     1.9 s later" in lines


def test_a_spared_pod_is_told_which_went_instead_and_why(the: Node) -> None:
    evict(the)

    assert the.why("leak")[:4] == [
        "default/leak was not evicted",
        "  uid       leak",
        "  last      at 2030-01-01T00:00:00Z memory.available was 96Mi of 512Mi, below the hard threshold of 100Mi",
        "  spared    default/low stood first in the order, and at most one pod goes at a time",
    ]
    assert the.why("leak")[-1] == (
        "            before kube-system/dns because its priority is lower: 0 against 2000000000"
    )


def test_an_order_that_is_cut_says_how_many_it_leaves_out(the: Node) -> None:
    crowd = [pod(f"pod{number}") for number in range(9)]
    usages = {each.uid: memory_used((40 - number) * MI) for number, each in enumerate(crowd)}
    the.look(snapshot(1893456000, node(memory=96 * MI, capacity=512 * MI, time_s=9), crowd, usages))

    order = [line.strip() for line in the.why("default/pod4")]
    start = order.index("order     5 of 9 for memory.available")
    assert order[start + 1] == "… 1 before these"
    assert order[start + 9] == "… 1 after these"


def test_the_first_while_another_cleared_away_was_not_chosen(the: Node) -> None:
    """A healthy pod: it was not told to end, and was not about to be."""
    eviction = evict(the)
    the.clock.pass_seconds(1)
    rest = [each for each in PODS if each is not LOW]
    seen = replace(STARVED, pods=rest, node=node(memory=90 * MI, capacity=512 * MI, time_s=10))
    the.look(seen, has_effect=False)
    the.say(events.PodCleanedUp(eviction.pod), 1)

    lines = the.why("leak")

    assert lines[0] == "default/leak was not evicted"
    assert lines[3] == (
        "  spared    a pod that was told to end before was still on its way out, and at most one goes at a time"
    )
    assert the.why("low")[0] == "default/low was evicted at 2030-01-01T00:00:00Z"


def test_the_first_while_another_had_to_hurry_was_not_chosen(the: Node) -> None:
    the.look(STARVED, instead=["leak"])

    assert the.why("low")[0] == "default/low was not evicted"
    assert the.why("low")[3] == "  spared    default/leak was told to end instead, and at most one pod goes at a time"


def test_a_critical_pod_is_told_that_it_is_one(the: Node) -> None:
    evict(the)

    lines = the.why("kube-system/dns")

    assert "  spared    it is critical (priority 2000000000), and critical pods are never evicted for pressure" in lines
    assert lines[-1].endswith("before default/web because it uses more than it asked for and default/web does not")


def test_the_choosing_step_is_the_last_before_the_signal_not_one_of_those_after(the: Node) -> None:
    eviction = evict(the)
    for second in range(1, 4):
        the.clock.pass_seconds(2)
        the.look(replace(STARVED, node=node(memory=(90 - second) * MI, capacity=512 * MI, time_s=10 + second)))
    the.say(events.EvictionTimedOut(eviction), 10)

    lines = the.why("low")

    assert "available: 96Mi" in "".join(lines)
    assert lines[2] == "  because   memory.available was 96Mi of 512Mi, below the hard threshold of 100Mi"
    assert lines[-1] == "  ended     not in time: given up waiting at 2030-01-01T00:00:16Z, the killing went on"


def test_what_was_freed_before_is_told(the: Node) -> None:
    full = replace(STARVED, node=node(fs=filesystem(GI)), usages={**USAGES, "web": PodUsage(MI, volumes=[])})
    evict(the, full)

    (line,) = [line for line in the.why("low") if line.startswith("  before ")]

    assert line == (
        "  before    dead containers and unused images were removed (3 containers, 0 images, 120Mi freed; "
        "1 could not be removed), and that was not enough"
    )


def test_a_pod_over_its_own_limit_is_told_so(the: Node) -> None:
    hoarder = pod("hoarder", volumes=[Volume("cache", True, parse("1Mi"))])
    usage = PodUsage(MI, volumes=[VolumeUsage("cache", 2 * MI)])
    evict(the, replace(STARVED, node=node(), pods=[hoarder, *PODS], usages={**USAGES, "hoarder": usage}))

    lines = the.why("hoarder")

    assert lines[2] == "  because   it held more local storage than it may, whatever the node's state"
    assert '  message   Usage of EmptyDir volume "cache" exceeds the limit "1Mi".' in lines


def test_a_preempted_pod_has_no_step(the: Node) -> None:
    evict(the)
    the.say(events.EvictionStarted(preemption_of(WEB), 5))
    the.say(events.PodEvicted(preemption_of(WEB), 2 * 10**9), 2)
    the.say(events.PodCleanedUp(WEB), 0.5)

    assert the.why("web") == [
        "default/web made room for a critical pod at 2030-01-01T00:00:00Z",
        "  uid       web",
        "  grace     its own",
        "  message   Preempted in order to admit critical pod",
        "  signal    sent 0.0 ms after the alarm or tick that began the look",
        "  ended     2.0 s later",
        "  cleared   nothing of it was left 2.5 s after the signal",
    ]


def test_the_kernel_may_have_been_faster(the: Node) -> None:
    the.say(events.OutOfMemoryKill(WEB, "c", 1))
    the.say(events.OutOfMemoryKill(WEB, "c", 2), 60)

    assert the.why("web") == [
        "default/web was not evicted; the kernel's OOM killer struck it at 2030-01-01T00:01:00Z",
        "  uid       web",
        "  kernel    the OOM killer ended 2 processes of container c at 2030-01-01T00:01:00Z",
        "  kernel    the OOM killer ended 1 process of container c at 2030-01-01T00:00:00Z",
    ]


def test_a_pod_that_fails_by_itself_is_told_how(the: Node) -> None:
    the.say(events.ContainerFinished(WEB, "c", 1, "Error"))
    the.say(events.ContainerFinished(WEB, "c", 128, "StartError", "cannot start `x`: no such file"), 60)

    assert the.why("web") == [
        "default/web was not evicted",
        "  uid       web",
        "  container c last ended at 2030-01-01T00:01:00Z with 128 (StartError, cannot start `x`: no such file)",
    ]


def test_a_pod_that_was_out_of_time_is_told_so(the: Node) -> None:
    the.say(events.PodAdmitted(WEB))
    the.say(events.DeadlineExceeded(WEB, 60))

    assert the.why("web")[0] == "default/web was not evicted; its deadline of 60 s was over at 2030-01-01T00:00:00Z"


def test_a_rejected_pod_is_told_why(the: Node) -> None:
    the.say(events.PodRejected(WEB, "Evicted", "The node had condition: [DiskPressure]. "))

    assert the.why("web") == [
        "default/web was not admitted at 2030-01-01T00:00:00Z",
        "  uid       web",
        "  rejected  Evicted: The node had condition: [DiskPressure].",
    ]


def test_a_pod_that_came_back_is_told_so(the: Node) -> None:
    eviction = evict(the)
    the.say(events.PodEvicted(eviction, 10**9), 1)
    the.say(events.PodAdmitted(LOW), 300)

    assert the.why("low")[-1] == "  since     admitted again at 2030-01-01T00:05:01Z"


def test_a_dry_run_and_a_crash_are_told_apart(the: Node) -> None:
    the.look(STARVED)
    assert the.why("low")[0] == (
        "default/low was chosen for eviction at 2030-01-01T00:00:00Z, but there is no record that it was told to end"
    )

    the.is_dry_run = True
    the.clock.pass_seconds(60)
    the.look(replace(STARVED, node=node(memory=95 * MI, capacity=512 * MI, time_s=10)))
    assert the.why("low")[0] == "default/low would have been evicted at 2030-01-01T00:01:00Z; it was a dry run"
    assert "  grace     1 s" in the.why("low")


def test_nothing_is_known_about_a_stranger(the: Node) -> None:
    evict(the)

    assert story_of(the.directory, PodQuery("stranger")) is None


def test_a_pod_that_was_only_seen_has_little_to_tell(the: Node) -> None:
    the.say(events.PodAdmitted(WEB))

    assert the.why("web") == ["default/web was not evicted", "  uid       web"]


def test_of_several_with_one_name_the_newest_is_meant(the: Node) -> None:
    the.say(events.PodAdmitted(WEB))
    the.say(events.PodAdmitted(replace(WEB, uid="web-2")))

    assert the.why("web")[1] == "  uid       web-2"
    assert the.why("web-2")[1] == "  uid       web-2"


@pytest.mark.parametrize(
    ("signal", "one", "other", "usages", "why"),
    [
        ("memory", pod("a", 5), pod("b"), {"b": memory_used(5)}, "it has no statistics, and such pods go first"),
        ("memory", pod("a"), pod("b"), {}, "of their names alone: nothing that Kubernetes compares tells them apart"),
        (
            "memory",
            pod("a"),
            pod("b", memory="1Ki"),
            {"a": memory_used(2048), "b": memory_used(2048)},
            "its usage less its request is larger: 2Ki against 1Ki",
        ),
        ("pids", pod("a"), pod("b", 5), {"a": PodUsage(processes=1)}, "its priority is lower: 0 against 5"),
        ("pids", pod("a"), pod("b"), {"b": PodUsage(processes=9)}, "it has no statistics, and such pods go first"),
        (
            "pids",
            pod("a"),
            pod("b"),
            {"a": PodUsage(processes=9), "b": PodUsage(processes=3)},
            "it has more processes: 9 against 3",
        ),
    ],
)
def test_why_one_pod_goes_before_the_next(
    the: Node, signal: str, one: Pod, other: Pod, usages: dict[str, PodUsage], why: str
) -> None:
    stats = node(memory=MI, time_s=9) if signal == "memory" else node(pids_left=5)
    evict(the, snapshot(100, stats, [other, one], usages))

    assert f"            before default/b because {why}" in the.why("a")


def test_names_cannot_move_the_cursor(the: Node) -> None:
    the.say(events.PodRejected(replace(WEB, name="w\x1b[2Jeb"), "R", "a\nb"))

    assert the.why("w\x1b[2Jeb") == [
        "default/w\\x1b[2Jeb was not admitted at 2030-01-01T00:00:00Z",
        "  uid       web",
        "  rejected  R: a\\nb",
    ]


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(400_000, "0.4 ms"), (999_000_000, "999.0 ms"), (1_940_000_000, "1.9 s")]
)
def test_lengths_of_time_read_well(nanoseconds: int, text: str) -> None:
    assert span(nanoseconds) == text


def test_what_others_know_stands_at_the_end(the: Node) -> None:
    the.say(events.PodAdmitted(WEB))
    story = story_of(the.directory, PodQuery.parse("web"))
    assert story is not None
    assert explain(story, {"now": "it waits,\nImagePullBackOff"})[-1] == "  now       it waits,\\nImagePullBackOff"
