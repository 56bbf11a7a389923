"""The node half of the oracle: one function per kind turns an input into the answer's shape.

Only translation lives here: JSON to engine values, engine values to JSON. Every rule is the engine's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from jettison.engine.config import allocatable
from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND, KubeletConfig
from jettison.engine.config.policy import (
    ImageCollection,
    Policy,
    build_policy,
    parse_reservation,
    thresholds_of,
    validate,
)
from jettison.engine.node import image_collection as collection
from jettison.engine.node import signals
from jettison.engine.node.decide import Evict, Outcome, Reclaim, decide, give_up_reclaim
from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.node.pressure import History
from jettison.engine.node.ranking import rank
from jettison.engine.node.snapshot import Layout, Snapshot
from jettison.engine.node.thresholds import (
    Amount,
    Percentage,
    Threshold,
    for_layout,
    memory_alarm_usage,
    parse_thresholds,
)
from jettison.engine.node.wording import Event, NodeCondition, event_of, eviction_event, report_conditions
from jettison.engine.numbers import quantity
from jettison.engine.numbers.durations import duration_text, parse_duration
from jettison.engine.pods import pod as pods
from jettison.engine.pods import preemption
from jettison.engine.pods.admission import Admission, Shortage, admit_under_pressure
from jettison.engine.pods.oom_scores import oom_score_adjustments
from jettison.errors import DurationError, PolicyError, QuantityError
from jettison.manifests.pods import pod_from
from jettison.manifests.summary import summary_from
from jettison.manifests.times import parse_time, time_text

Json = Any
SECOND_NS = 10**9


def answer_quantity(case: Json) -> Json:
    """Parsing, integer views and canonical text."""
    try:
        parsed = quantity.parse(case["s"])
    except QuantityError as error:
        return {"ok": False, "error": str(error)}
    out: dict[str, Json] = {
        "ok": True,
        "canonical": str(parsed),
        "sign": parsed.sign,
        "format": parsed.format.value,
        "value": parsed.value,
        "milli": parsed.milli,
    }
    if not parsed.fits_int64():
        out |= {"value": None, "overflowValue": parsed.value}
    if not parsed.fits_int64(-3):
        out |= {"milli": None, "overflowMilli": parsed.milli}
    return out


def answer_quantityops(case: Json) -> Json:
    """Arithmetic and comparison."""
    a, b = quantity.parse(case["a"]), quantity.parse(case["b"])
    return {
        "ok": True,
        "add": str(a + b),
        "sub": str(a - b),
        "neg": str(-a),
        "cmp": (b < a) - (a < b),
        "equal": a == b,
    }


def answer_duration(case: Json) -> Json:
    """Go durations."""
    try:
        nanoseconds = parse_duration(case["s"])
    except DurationError as error:
        return {"ok": False, "error": str(error)}
    return {"ok": True, "nanoseconds": nanoseconds, "text": duration_text(nanoseconds)}


def _config(fragment: Mapping[str, Json]) -> KubeletConfig:
    return assemble(Source("config", {"apiVersion": API_VERSION, "kind": KIND, **fragment}))


_MAPS = ("evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim")


def _eviction_config(case: Json, **more: Json) -> KubeletConfig:
    """The five maps of a case; absent ones are empty here, never Kubernetes' defaults."""
    fragment = {name: case.get(name) or {} for name in _MAPS}
    return _config({**fragment, "enforceNodeAllocatable": case.get("enforceNodeAllocatable") or [], **more})


def answer_thresholds(case: Json) -> Json:
    """Threshold maps to records."""
    try:
        parsed: Sequence[Threshold] = thresholds_of(_eviction_config(case))
    except PolicyError as error:
        return {"error": True, "messages": [complaint.text for complaint in error.leading]}
    out: dict[str, Json] = {}
    if "imageFs" in case or "splitFs" in case:
        derived = for_layout(parsed, Layout(case.get("imageFs", False), case.get("splitFs", False)))
        parsed = derived.all
        out["containerFsOverridden"] = derived.conflicts
    return out | {"thresholds": _thresholds(parsed)}


def _thresholds(thresholds: Sequence[Threshold]) -> Json:
    shown = [
        {
            "signal": str(each.signal),
            "operator": "" if each.is_inert else "LessThan",
            "value": _amount(each.amount),
            "gracePeriodSeconds": each.grace_ns / SECOND_NS,
            "minReclaim": _amount(each.minimum_reclaim),
        }
        for each in thresholds
    ]
    return sorted(shown, key=lambda row: (row["signal"], row["gracePeriodSeconds"], _as_go_writes(row)))


def _as_go_writes(row: Json) -> str:
    """JSON text with Go's numbers: 0 and not 0.0, 0.00001 and not 1e-05."""
    text = json.dumps(row, sort_keys=True)
    return re.sub(r"(?<=: )[0-9.]+(e-0[56])?(?=[,}])", lambda number: f"{Decimal(number[0]).normalize():f}", text)


def _amount(amount: Amount | None) -> Json:
    if amount is None:
        return None
    if not isinstance(amount, Percentage):
        return {"quantity": str(amount)}
    if math.isnan(amount.fraction):
        return {"percentage": "NaN"}
    if math.isinf(amount.fraction):
        return {"percentage": "+Inf"}
    return {"percentage": amount.fraction}


def answer_kubeletconfig(case: Json) -> Json:
    """A configuration fragment, loaded."""
    try:
        config = _config(case["config"])
    except PolicyError as error:
        # Kubernetes stops at the first mistake, and does not say which field it is about.
        first = min(error.complaints, key=lambda each: list(case["config"]).index(each.key))
        return {"loadError": True, "message": f"failed to decode: {first.text.removeprefix(f'{first.key}: ')}"}
    out: dict[str, Json] = {
        "cgroupsPerQOS": config.cgroups_per_qos,
        "enforceNodeAllocatable": list(config.enforce_node_allocatable),
        "evictionHard": config.eviction_hard,
        "evictionSoft": config.eviction_soft,
        "evictionSoftGracePeriod": config.eviction_soft_grace_period,
        "evictionMinimumReclaim": config.eviction_minimum_reclaim,
        "evictionMaxPodGracePeriod": config.eviction_max_pod_grace_period,
        "evictionPressureTransitionPeriodSeconds": config.eviction_pressure_transition_period / SECOND_NS,
        "imageGCHighThresholdPercent": config.image_gc_high_threshold,
        "imageGCLowThresholdPercent": config.image_gc_low_threshold,
        "imageMaximumGCAgeSeconds": config.image_maximum_gc_age / SECOND_NS,
        "imageMinimumGCAgeSeconds": config.image_minimum_gc_age / SECOND_NS,
        "kubeReserved": config.kube_reserved,
        "systemReserved": config.system_reserved,
        "localStorageCapacityIsolation": config.local_storage_capacity_isolation,
        "maxPods": config.max_pods,
        "mergeDefaultEvictionSettings": config.merge_default_eviction_settings,
        "podPidsLimit": config.pod_pids_limit,
        "podsPerCore": config.pods_per_core,
        "validationErrors": [complaint.text for complaint in validate(config)],
    }
    try:
        return out | {"thresholds": _thresholds(thresholds_of(config))}
    except PolicyError as error:
        return out | {"thresholdError": [complaint.text for complaint in error.leading]}


def answer_observations(case: Json) -> Json:
    """A summary's readings."""
    node, _ = summary_from(case["summary"])
    return {
        str(signal): {
            "available": reading.available,
            "capacity": reading.capacity,
            "availableText": str(signals.ROWS[signal].amount(reading.available)),
            "capacityText": str(signals.ROWS[signal].amount(reading.capacity)),
            "time": None if reading.time_ns is None else time_text(reading.time_ns),
        }
        for signal, reading in signals.readings(node).items()
    }


def answer_qos(case: Json) -> Json:
    """QoS class, and whether the pod is critical."""
    pod = pod_from(case["pod"])
    return {
        "computed": str(pods.computed_qos(pod)),
        "effective": str(pod.qos),
        "critical": pod.is_critical,
        "nodeCritical": pod.is_node_critical,
        "static": pod.is_static,
        "mirror": pod.is_mirror,
    }


def answer_oomscore(case: Json) -> Json:
    """oom_score_adj per container."""
    return oom_score_adjustments(pod_from(case["pod"]), case["memoryCapacity"])


_ASKED = ("cpu", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "inodes", "memory", "pods")


def answer_podresources(case: Json) -> Json:
    """Requests and limits, for accounting and for ranking."""
    pod = pod_from(case["pod"])
    return {
        "requests": _texts(pods.requests(pod)),
        "limits": _texts(pods.limits(pod)),
        "podLevelResources": pod.has_pod_level_resources,
        "evictionRequest": {
            name: {"quantity": str(pods.ranking_request(pod, name)), "value": pods.integer_request(pod, name)}
            for name in _ASKED
        },
    }


def _texts(amounts: Mapping[str, quantity.Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def answer_allocatable(case: Json) -> Json:
    """Node allocatable."""
    errors = {
        "systemReserved": _complaints(lambda: parse_reservation("systemReserved", case["systemReserved"])),
        "kubeReserved": _complaints(lambda: parse_reservation("kubeReserved", case["kubeReserved"])),
        "evictionHard": _complaints(lambda: thresholds_of(_eviction_config(case))),
    }
    if any(texts != [""] for texts in errors.values()):
        return {"configError": errors}
    config = _eviction_config(
        case,
        systemReserved=case["systemReserved"],
        kubeReserved=case["kubeReserved"],
        maxPods=case["maxPods"],
        podsPerCore=case.get("podsPerCore", 0),
        localStorageCapacityIsolation=case["localStorageCapacityIsolation"],
    )
    storage = case.get("ephemeralStorage")
    machine = allocatable.MachineCapacity(
        case["numCores"],
        case["memoryCapacity"],
        None if storage is None else quantity.parse(storage),
        [allocatable.HugePages(pages["pageSizeKB"], pages["numPages"]) for pages in case.get("hugePages") or ()],
    )
    found = allocatable.node_allocatable(machine, build_policy(config))
    return {
        "capacity": _texts(found.capacity),
        "allocatable": _texts(found.allocatable),
        "reservation": _texts(found.reservation),
        "hardEvictionReservation": _texts(found.hard_eviction),
        "enforcedAllocatable": _texts(found.enforced),
        "overReserved": found.over_reserved,
    }


def _complaints(build: Callable[[], object]) -> list[str]:
    try:
        build()
    except PolicyError as error:
        return [complaint.text for complaint in error.leading]
    return [""]


START_NS = parse_time("2024-01-01T00:00:00Z")


def _ago(seconds: float | None) -> int | None:
    return None if seconds is None else START_NS - round(seconds * SECOND_NS)


def answer_imagegc(case: Json) -> Json:
    """Image collection, with removals that fail as the case says."""
    wanted = case["policy"]
    policy = ImageCollection(
        wanted["highThresholdPercent"],
        wanted["lowThresholdPercent"],
        round(wanted["minAgeSeconds"] * SECOND_NS),
        round(wanted["maxAgeSeconds"] * SECOND_NS),
    )
    objection = collection.check_image_policy(policy)
    if objection is not None:
        return {"policyError": objection}
    images = [_image(image) for image in case["images"]]
    failing = {image["id"] for image in case["images"] if image.get("removeFails")}
    disk = case["imageFs"]
    if case["op"] == "garbageCollect":
        began = _ago(case["beganGCSecondsAgo"]) or 0
        talk = collection.collect_images(
            images, policy, START_NS, began, disk.get("capacityBytes"), disk.get("availableBytes")
        )
    elif case["op"] == "freeSpace":
        talk = collection.free_space(images, policy, START_NS, case["amountToFree"])
    else:
        talk = collection.free_space(images, policy, START_NS)
    deleted, result = _carry_out(talk, failing)
    passed_over = None if result.passed_over is None else sorted(result.passed_over)
    out: dict[str, Json] = {
        "deleted": deleted,
        "error": result.error,
        "events": [] if result.event is None else [_node_event(result.event, result.error)],
        "notDeletedCandidates": passed_over,
    }
    if case["op"] == "freeSpace":
        out |= {"freed": result.freed, "notDeletedCandidates": passed_over or None}
    return out


def _image(image: Json) -> collection.Image:
    detected = _ago(image.get("firstDetectedSecondsAgo"))
    return collection.Image(
        image["id"],
        image["size"],
        START_NS if detected is None else detected,
        _ago(image.get("lastUsedSecondsAgo")),
        image.get("inUse", False) or image.get("mountedAsVolume", False),
        image.get("pinned", False),
    )


def _carry_out(talk: collection.Collection, failing: set[str]) -> tuple[list[str], collection.Collected]:
    deleted: list[str] = []
    failure: str | None = None
    try:
        removal = next(talk)
        while True:
            name = removal.image.id
            failure = f"cannot remove {name}" if name in failing else None
            if failure is None:
                deleted.append(name)
            removal = talk.send(failure)
    except StopIteration as stop:
        return deleted, stop.value


def _node_event(reason: str, message: str | None) -> Json:
    return {"object": "Node/node1", "type": "Warning", "reason": reason, "message": message, "annotations": None}


def answer_memcg(case: Json) -> Json:
    """Where the kernel's memory alarm goes off."""
    wanted = case["threshold"]
    parsed = parse_thresholds(
        {}, {wanted["signal"]: wanted["value"]}, {wanted["signal"]: "1s"}, {}, guards_allocatable=False
    )
    if not parsed:
        return {"ignored": True}
    threshold = replace(parsed[0], grace_ns=round(wanted["gracePeriodSeconds"] * SECOND_NS))
    node, _ = summary_from(case["summary"])
    is_allocatable = threshold.signal is signals.Signal.ALLOCATABLE_MEMORY_AVAILABLE
    kind = "hard" if threshold.is_hard else "soft"
    description = f"{kind} {'allocatable ' if is_allocatable else ''}memory eviction threshold"
    if is_allocatable and not node.has_pods_container:
        return {"error": 'system container "pods" not found in metrics', "description": description}
    usage = memory_alarm_usage(threshold, node.pods_memory if is_allocatable else node.memory)
    if usage is None:
        return {"error": "summary was incomplete", "description": description}
    return {"threshold": usage, "description": description}


def answer_rank(case: Json) -> Json:
    """The eviction order; pods that compare equal form one group."""
    if case["signal"] not in {str(signal) for signal in signals.Signal}:
        return {"error": "no rank function"}
    _, usages = summary_from({"pods": case["podStats"]})
    ranked = rank(
        signals.Signal(case["signal"]),
        [pod_from(pod) for pod in case["pods"]],
        usages,
        Layout(case.get("imageFs", False), case.get("splitFs", False)),
    )
    groups: list[list[str]] = []
    for position, pod in enumerate(ranked.pods):
        if position and ranked.are_equal(position - 1, position):
            groups[-1].append(pod.name)
        else:
            groups.append([pod.name])
    return {"groups": [sorted(group) for group in groups]}


def answer_admit(case: Json) -> Json:
    """Admission under pressure."""
    conditions = [signals.Condition(condition) for condition in case["nodeConditions"]]
    return _admission(admit_under_pressure(pod_from(case["pod"]), conditions))


def _admission(admission: Admission) -> Json:
    return {"admit": admission.is_admitted, "reason": admission.reason, "message": admission.message}


def answer_preemption(case: Json) -> Json:
    """Which pods a critical pod pushes aside."""
    incoming = pod_from(case["admitPod"])
    shortages = [
        Shortage(each["resource"], each["requested"], each["used"], each["capacity"]) for each in case["insufficient"]
    ]
    documents = {pod["metadata"]["name"]: pod for pod in case["pods"]}
    answer = preemption.handle_admission_failure(
        incoming, [pod_from(pod) for pod in case["pods"]], shortages, case.get("otherReasons") or ()
    )
    killed = [
        {"pod": order.pod.name, "gracePeriodOverride": order.grace_seconds, "status": _status(order, documents)}
        for order in answer.evictions
    ]
    return {
        "pods": [each["pod"] for each in killed],
        "killed": killed,
        "remainingReasons": list(answer.remaining),
        "error": answer.error,
    }


def _status(order: Eviction, documents: Mapping[str, Json]) -> Json:
    before = (documents[order.pod.name].get("status") or {}).get("conditions") or ()
    conditions = order.conditions_after(
        PodCondition(
            each["type"],
            each["status"],
            each.get("reason", ""),
            each.get("message", ""),
            each.get("observedGeneration", 0),
        )
        for each in before
    )
    return {
        "phase": "Failed",
        "reason": order.reason,
        "message": order.message,
        "conditions": [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "observedGeneration": each.observed_generation,
            }
            for each in conditions
        ],
    }


def answer_nodecondition(case: Json) -> Json:
    """The node's pressure conditions over several reports."""
    conditions = [
        NodeCondition(
            each["type"],
            each["status"],
            each["reason"],
            each["message"],
            parse_time(each["lastHeartbeatTime"]),
            parse_time(each["lastTransitionTime"]),
        )
        for each in case["conditions"]
    ]
    steps = []
    for step in case["steps"]:
        flags = zip(signals.Condition, (step["memory"], step["disk"], step["pid"]), strict=True)
        reported = frozenset(condition for condition, is_true in flags if is_true)
        conditions, events = report_conditions(conditions, reported, parse_time(step["now"]), "node1")
        steps.append(
            {
                "conditions": [_node_condition(each) for each in conditions],
                "events": [f"{event.type} {event.reason}" for event in events],
            }
        )
    return {"steps": steps}


def _node_condition(condition: NodeCondition) -> Json:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": time_text(condition.heartbeat_ns or 0),
        "lastTransitionTime": time_text(condition.transition_ns or 0),
    }


def answer_synchronize(case: Json) -> Json:
    """Several passes of the eviction manager; what the agent would do between two `decide` calls is played here."""
    policy = eviction_policy(case)
    layout = Layout(case.get("imageFs", False), case.get("splitFs", False))
    documents = {pod["metadata"]["name"]: pod for pod in case["pods"]}
    known = case_pods(case)
    probes = [pod_from(probe) for probe in case.get("probes") or ()]
    history, now_ns, steps = History(), START_NS, []
    for step in case["steps"]:
        now_ns += round(step["advanceSeconds"] * SECOND_NS)
        active = [known[name] for name in step["pods"]]
        outcomes = _pass(policy, history, step, active, now_ns, layout)
        history = outcomes[-1].history if outcomes else history.unobserved()
        steps.append(_step_answer(outcomes, history, probes, documents))
    return {"steps": steps}


def eviction_policy(case: Json) -> Policy:
    """The policy of a case of several passes."""
    flags = [("eviction-pressure-transition-period", f"{case['pressureTransitionPeriodSeconds']}s")]
    return build_policy(assemble(Source("case", _eviction_document(case)), flags=flags))


def case_pods(case: Json) -> dict[str, pods.Pod]:
    """Its pods by their names."""
    return {pod["metadata"]["name"]: pod_from(pod) for pod in case["pods"]}


def _eviction_document(case: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **{name: case.get(name) or {} for name in _MAPS},
        "enforceNodeAllocatable": case.get("enforceNodeAllocatable") or [],
        "evictionMaxPodGracePeriod": case["maxPodGracePeriodSeconds"],
        "localStorageCapacityIsolation": case["localStorageCapacityIsolation"],
    }


def _pass(
    policy: Policy, history: History, step: Json, active: Sequence[pods.Pod], now_ns: int, layout: Layout
) -> list[Outcome]:
    if step.get("summaryError"):
        return []
    node, usages = summary_from(step["summary"])
    outcomes = [decide(policy, history, Snapshot(now_ns, node, active, usages, layout))]
    if isinstance(outcomes[0].decision, Reclaim):
        after = outcomes[0].history
        if step.get("afterReclaimError"):
            outcomes.append(give_up_reclaim(after))
        else:
            node, usages = summary_from(step.get("afterReclaimSummary") or step["summary"])
            outcomes.append(decide(policy, after, Snapshot(now_ns, node, active, usages, layout)))
    return outcomes


_COLLECTORS = {signals.Reclaimable.CONTAINERS: "containerGC", signals.Reclaimable.IMAGES: "imageGC"}


def _step_answer(
    outcomes: Sequence[Outcome], history: History, probes: Sequence[pods.Pod], documents: Mapping[str, Json]
) -> Json:
    evictions: list[Eviction] = []
    events, collected = [], []
    for outcome in outcomes:
        events += [event for fact in outcome.facts if (event := event_of(fact)) is not None]
        if isinstance(outcome.decision, Reclaim):
            collected += [_COLLECTORS[what] for what in outcome.decision.what]
        if isinstance(outcome.decision, Evict):
            orders = outcome.decision.evictions
            evictions += orders[:1] if outcome.decision.at_most_one else orders
    events += [eviction_event(order) for order in evictions]
    conditions = sorted(history.conditions)
    return {
        "evicted": [
            {"pod": each.pod.name, "gracePeriodOverride": each.grace_seconds, "status": _status(each, documents)}
            for each in evictions
        ],
        "returned": sorted(each.pod.name for each in evictions) or None,
        "error": False,
        "nodeConditions": [str(condition) for condition in conditions],
        "underPressure": {
            "memory": signals.Condition.MEMORY_PRESSURE in history.conditions,
            "disk": signals.Condition.DISK_PRESSURE in history.conditions,
            "pid": signals.Condition.PID_PRESSURE in history.conditions,
        },
        "gc": collected,
        "events": [_event(event) for event in events],
        "admit": [{"pod": probe.name, **_admission(admit_under_pressure(probe, conditions))} for probe in probes],
    }


def _event(event: Event) -> Json:
    return {
        "object": "Node/node1" if event.pod is None else f"Pod/{event.pod}",
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "annotations": None if event.annotations is None else dict(event.annotations),
    }


ANSWERS: dict[str, Callable[[Json], Json]] = {
    "quantity": answer_quantity,
    "quantityops": answer_quantityops,
    "duration": answer_duration,
    "thresholds": answer_thresholds,
    "kubeletconfig": answer_kubeletconfig,
    "observations": answer_observations,
    "qos": answer_qos,
    "oomscore": answer_oomscore,
    "podresources": answer_podresources,
    "allocatable": answer_allocatable,
    "imagegc": answer_imagegc,
    "memcg": answer_memcg,
    "rank": answer_rank,
    "admit": answer_admit,
    "preemption": answer_preemption,
    "nodecondition": answer_nodecondition,
    "synchronize": answer_synchronize,
}
