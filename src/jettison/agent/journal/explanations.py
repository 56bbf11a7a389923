"""Why a pod was evicted, or was not: the words of `jettison why`.

Everything said here comes from the journal, so it can be said when the agent is down and the pod long gone. Numbers are
printed as Kubernetes prints them, because they stand beside Kubernetes' own message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jettison.agent.amounts import span
from jettison.agent.journal.reading import PodName, Record
from jettison.agent.journal.recorded_steps import RecordedLook, RecordedStep, StarvedRecord
from jettison.agent.journal.stories import Story
from jettison.agent.safe_text import printable
from jettison.engine.node.amounts import short
from jettison.engine.node.evictions import BY_HAND
from jettison.engine.node.local_storage import broken_limit
from jettison.engine.node.ranking import Candidate, Ranking
from jettison.engine.node.signals import ROWS, Resource, Signal, readings
from jettison.engine.numbers.quantity import binary_text
from jettison.engine.pods.pod import Pod
from jettison.manifests.times import time_text

NEIGHBOURS = 3
"""How many pods before and after the one in question are shown."""

_LABEL = 10


def explain(
    story: Story, besides: Mapping[str, str] | None = None, changes: tuple[str, Sequence[str]] = ("", ())
) -> list[str]:
    """Lines to print; `besides`, by their labels, is what others than the journal know.

    `changes` are sentences about what would have led to another choice, and their label.
    """
    more = (line for label, text in (besides or {}).items() for line in _line(label, text))
    return [_headline(story), *_details(story, changes), *more]


def _headline(story: Story) -> str:
    name = _name(story.pod)
    rejected, overdue = story.facts.get("pod_rejected"), story.facts.get("deadline_exceeded")
    if story.started is not None:
        said = "made room for a critical pod" if story.is_preempted else "was evicted"
        return f"{name} {said} at {time_text(story.started.time_ns)}"
    if story.is_asked:
        return f"{name} {'would be evicted now' if story.is_chosen else 'would not be evicted now'}"
    if story.is_chosen and story.step is not None:
        when = time_text(story.step.time_ns)
        if story.step.acts:
            return f"{name} was chosen for eviction at {when}, but there is no record that it was told to end"
        return f"{name} would have been evicted at {when}; it was a dry run"
    if rejected is not None and story.after("pod_admitted", rejected) is None:
        return f"{name} was not admitted at {time_text(rejected.time_ns)}"
    if overdue is not None:
        when = time_text(overdue.time_ns)
        return f"{name} was not evicted; its deadline of {overdue.values['seconds']} s was over at {when}"
    if story.kills:
        return f"{name} was not evicted; the kernel's OOM killer struck it at {time_text(story.kills[0].time_ns)}"
    return f"{name} was not evicted"


def _details(story: Story, changes: tuple[str, Sequence[str]]) -> Iterator[str]:
    yield from _line("uid", story.pod[2])
    if story.step is not None and story.is_chosen:
        yield from _choice(story, story.step)
    elif story.step is not None:
        yield from _spared(story, story.step)
    label, sentences = changes
    for sentence in sentences:
        yield from _line(label, sentence)
        label = ""
    if story.step is not None and story.is_chosen:
        yield from _order_given(story, story.step)
    if story.started is not None:
        yield from _ending(story, story.started)
    finished = story.facts.get("container_finished")
    if story.started is None and finished is not None:
        values = finished.values
        why = ", ".join(filter(None, (values["reason"], values.get("message"))))
        ended = f"{values['container']} last ended at {time_text(finished.time_ns)} with {values['exit_code']} ({why})"
        yield from _line("container", ended)
    for kill in story.kills:
        values = kill.values
        count = f"{values['kills']} process" if values["kills"] == 1 else f"{values['kills']} processes"
        where = f"{count} of container {values['container']}"
        yield from _line("kernel", f"the OOM killer ended {where} at {time_text(kill.time_ns)}")
    rejected = story.after("pod_rejected", story.started)
    if rejected is not None:
        yield from _line("rejected", f"{rejected.values['reason']}: {rejected.values['message'].strip()}")
    admitted = story.after("pod_admitted", story.started) if story.started is not None else None
    if admitted is not None:
        yield from _line("since", f"admitted again at {time_text(admitted.time_ns)}")


def _choice(story: Story, step: RecordedStep) -> Iterator[str]:
    look = step.looks[-1]
    starved = look.decision.starved
    if starved is None:
        yield from _line("because", "it held more local storage than it may, whatever the node's state")
        yield from _held(story, step)
    else:
        yield from _line("because", _because(starved, is_now=story.is_asked))
        yield from _allocatable(look, starved)
    if step.alarm:
        latency = "" if step.latency_ns is None else f", decided and on record {span(step.latency_ns)} later"
        yield from _line("noticed", f"by {step.alarm}{latency}")
    if starved is not None:
        yield from _line("before", _reclaim(step, story))
    if look.ranking is not None:
        yield from _order(look.ranking, story.pod[2])


def _order_given(story: Story, step: RecordedStep) -> Iterator[str]:
    look = step.looks[-1]
    order = next((each for each in look.decision.evictions if each.pod == story.pod[2]), None)
    if order is not None and story.started is None:
        yield from _told(order.grace_seconds, order.message)


def _held(story: Story, step: RecordedStep) -> Iterator[str]:
    """How much that was, as the step had measured it."""
    snapshot, uid = step.looks[-1].snapshot, story.pod[2]
    pod = None if snapshot is None else next((each for each in snapshot.pods if each.uid == uid), None)
    usage = None if snapshot is None else snapshot.usages.get(uid)
    broken = None if pod is None or usage is None or snapshot is None else broken_limit(pod, usage, snapshot.layout)
    if broken is None:
        return
    used, over = (short(each, Resource.EPHEMERAL_STORAGE) for each in (broken.used, broken.used - broken.limit.value))
    yield from _line("held", f"{broken.what} had {used}, {over} over its limit of {broken.limit}")


def _because(starved: StarvedRecord, *, is_now: bool = False) -> str:
    row = ROWS[starved.signal]
    available, capacity = row.amount(starved.available), row.amount(starved.capacity)
    kind = "hard" if starved.is_hard else "soft"
    # A soft threshold's text ends in the time for which it had to be crossed.
    grace = starved.threshold.partition(" for ")[2]
    lasting = f" for {grace} or longer" if grace else ""
    is_ = "is" if is_now else "was"
    return (
        f"{starved.signal} {is_} {available} of {capacity}, below the {kind} threshold of {starved.quantity}{lasting}"
    )


def _allocatable(look: RecordedLook, starved: StarvedRecord) -> Iterator[str]:
    """What allocatable memory is: its name does not say that a node with plenty of memory can run out of it."""
    if starved.signal != Signal.ALLOCATABLE_MEMORY_AVAILABLE:
        return
    of_node = None if look.snapshot is None else readings(look.snapshot.node).get(Signal.MEMORY_AVAILABLE)
    share = f"allocatable memory is what pods may use together, {binary_text(starved.capacity)}"
    if of_node is None:
        yield from _line("", f"{share}: the node's memory less what is reserved for the system")
        return
    reserved = binary_text(max(of_node.capacity - starved.capacity, 0))
    yield from _line("", f"{share}: {binary_text(of_node.capacity)} less {reserved} reserved for the system")
    free = f"the node itself had {binary_text(of_node.available)} available"
    yield from _line("", f"{free}, which pods may not use; a smaller systemReserved or kubeReserved gives it to them")


def _reclaim(step: RecordedStep, story: Story) -> str:
    first, reclaimed = step.looks[0].decision, story.reclaimed
    if first.kind != "reclaim":
        return f"nothing {'can' if story.is_asked else 'could'} be freed without ending a pod"
    what = " and ".join("dead containers" if each == "containers" else f"unused {each}" for each in first.what)
    if story.is_asked:
        known = "that was not enough" if step.looks[-1].snapshot is not None else "this is if that is not enough"
        return f"{what} are removed first, and {known}"
    if reclaimed is None:
        return f"{what} were to be removed, and that was not enough"
    values = reclaimed.values
    freed = f"{values['containers']} containers, {values['images']} images, {binary_text(values['freed_bytes'])} freed"
    errors = f"; {len(values['errors'])} could not be removed" if values["errors"] else ""
    return f"{what} were removed ({freed}{errors}), and that was not enough"


def _order(ranking: Ranking, uid: str) -> Iterator[str]:
    place = next((index for index, (_, pod, _) in enumerate(ranking.entries) if pod.uid == uid), None)
    if place is None:
        return
    yield from _line("order", f"{place + 1} of {len(ranking)} for {ranking.signal}")
    first, end = max(place - NEIGHBOURS, 0), min(place + NEIGHBOURS + 1, len(ranking))
    shown = ranking[first:end]
    rows = [_row(candidate, candidate.position == place) for candidate in shown]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if first:
        yield from _line("", f"  … {first} before these")
    for row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield from _line("", cells.rstrip())
    if end < len(ranking):
        yield from _line("", f"  … {len(ranking) - end} after these")
    resource, asked_for = ROWS[ranking.signal].resource, ranking[place]
    if place > 0:
        one = ranking[place - 1]
        yield from _line("", f"after {one.pod}, which stands before it because {why_before(one, asked_for, resource)}")
    if place + 1 < len(ranking):
        other = ranking[place + 1]
        yield from _line("", f"before {other.pod} because {why_before(asked_for, other, resource)}")


def _row(candidate: Candidate, is_asked_for: bool) -> tuple[str, ...]:
    exceeds = {True: "over its request", False: "within its request", None: ""}[candidate.exceeds_request]
    return (
        f"{'→' if is_asked_for else ' '} {candidate.position + 1}.",
        str(candidate.pod),
        "no statistics" if candidate.usage is None else f"uses {candidate.usage}",
        f"asked {candidate.request}",
        exceeds,
        f"priority {candidate.priority}",
        "critical" if candidate.pod.is_critical else "",
    )


def why_before(one: Candidate, other: Candidate, resource: Resource) -> str:
    """The first comparison that tells two neighbours apart."""
    priority = None
    if one.priority != other.priority:
        priority = f"its priority is lower: {one.priority} against {other.priority}"
    if resource is Resource.PIDS and priority is not None:
        return priority
    if one.has_usage != other.has_usage:
        return "it has no statistics, and such pods go first"
    if one.exceeds_request != other.exceeds_request:
        return f"it uses more than it asked for and {other.pod} does not"
    if priority is not None:
        return priority
    if one.usage is None or other.usage is None or one.excess == other.excess:
        return "of their names alone: nothing that Kubernetes compares tells them apart"
    if resource is Resource.PIDS:
        return f"it has more processes: {one.usage} against {other.usage}"
    return f"its usage less its request is larger: {one.excess} against {other.excess}"


def _spared(story: Story, step: RecordedStep) -> Iterator[str]:
    look, uid = step.looks[-1], story.pod[2]
    ranking = look.ranking
    pod = next((pod for pod in ranking.pods if pod.uid == uid), None) if ranking is not None else None
    if ranking is None or pod is None:
        if story.is_asked:
            yield from _line("because", look.decision.why)
        return
    starved = look.decision.starved
    when = f"at {time_text(step.time_ns)}"
    if story.is_asked and starved is not None:
        yield from _line("because", _because(starved, is_now=True))
    else:
        yield from _line("last", f"{when} {_because(starved)}" if starved is not None else when)
    if starved is not None:
        yield from _allocatable(look, starved)
    if pod.is_critical:
        yield from _line("spared", _critical(pod))
    else:
        yield from _line("spared", _went_instead(step, ranking, is_now=story.is_asked))
    yield from _order(ranking, uid)


def _critical(pod: Pod) -> str:
    why = "a static pod" if pod.is_static or pod.is_mirror else f"priority {pod.effective_priority}"
    return f"it is critical ({why}), and critical pods are never evicted for pressure"


def _went_instead(step: RecordedStep, ranking: Ranking, *, is_now: bool) -> str:
    if step.waits:
        return "a pod that was told to end before was still on its way out, and at most one goes at a time"
    told = next((pod for pod in ranking.pods if step.evicts and pod.uid == step.evicts[0]), None)
    if told is None:
        return "no pod had to go"
    is_first = any(order.pod == told.uid for order in step.looks[-1].decision.evictions[:1])
    how = f"{'stands' if is_now else 'stood'} first in the order" if is_first else "was told to end instead"
    return f"{told} {how}, and at most one pod goes at a time"


def _ending(story: Story, started: Record) -> Iterator[str]:
    values = started.values
    is_by_hand = values["signal"] == BY_HAND
    if is_by_hand:
        yield from _line("because", "the operator of the node said so: `jettison evict`")
    yield from _told(values["grace_seconds"], values["message"])
    if values["decided_ns"] is None:
        yield from _line("signal", "sent by an agent that ended right then; the next one took the eviction over")
    elif not is_by_hand:
        yield from _line("signal", f"sent {span(values['decided_ns'])} after the alarm or tick that began the look")
    hurried = story.after("grace_cut_short", started)
    if hurried is not None:
        yield from _line("hurried", _hurried(hurried.values))
    elif values.get("is_at_once"):
        yield from _line("hurried", "killed at once and not asked: past a hard threshold this profile leaves no time")
    ended = story.after("pod_evicted", started)
    timed_out = story.after("eviction_timed_out", started)
    if ended is not None:
        yield from _line("ended", f"{span(ended.values['took_ns'])} later")
    elif timed_out is not None:
        when = time_text(timed_out.time_ns)
        yield from _line("ended", f"not in time: given up waiting at {when}, the killing went on")
    else:
        yield from _line("ended", "not on record")
    cleaned = story.after("pod_cleaned_up", started)
    if cleaned is not None:
        # The clock of a record is that of the machine, and a record is made after what it tells.
        known = (started.time_ns, 0) if ended is None else (ended.time_ns, ended.values["took_ns"])
        later = span(known[1] + max(cleaned.time_ns - known[0], 0))
        yield from _line("cleared", f"nothing of it was left {later} after the signal")


def _hurried(values: Mapping[str, Any]) -> str:
    left, fall = (short(values[name], Resource.MEMORY) for name in ("available", "fall_per_second"))
    after, given = f"{values['after_ns'] / 10**9:.1f} s", f"{values['grace_seconds']} s"
    return f"killed after {after} of its {given}: {left} were left of {values['signal']} and fell by {fall}/s"


def _told(grace_seconds: int | None, message: str) -> Iterator[str]:
    yield from _line("grace", "its own" if grace_seconds is None else f"{grace_seconds} s")
    yield from _line("message", message.strip())


def _line(label: str, text: str) -> Iterator[str]:
    yield f"  {label.ljust(_LABEL)}{printable(text)}"


def _name(pod: PodName) -> str:
    return printable(f"{pod[0]}/{pod[1]}")
