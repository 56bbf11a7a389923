"""What is said about a rollout: counters, and the conditions that `kubectl rollout status` and `wait` look at.

Nothing in here asks or writes anything: a status goes in and another one comes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jettison.controllers.deployment.revisions import UNLIMITED, replicas_of, rollout_of
from jettison.controllers.machinery.objects import condition_of
from jettison.controllers.replica_set import REPLICA_FAILURE
from jettison.engine.numbers.strconv import quote
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time, time_text
from jettison.runtimes.kube.client import Document

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
COMPLETE: Final = "NewReplicaSetAvailable"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"

_SECOND_NS: Final = 10**9


def condition(kind: str, status: str, reason: str, message: str, now_ns: int) -> Document:
    """As Deployments have them: with the time of the last word and that of the last change."""
    now = time_text(now_ns)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_condition(status: Document, new: Document, *, is_repeated: bool = False) -> Document:
    """Said once: the same status for the same reason stays as it was told first, unless it is to be repeated."""
    known = condition_of({"status": status}, new["type"])
    if known is not None and known.get("status") == new["status"]:
        if known.get("reason") == new["reason"] and not is_repeated:
            return status
        new = {**new, "lastTransitionTime": known.get("lastTransitionTime") or new["lastTransitionTime"]}
    return {**status, "conditions": [*without_condition(status, new["type"])["conditions"], new]}


def without_condition(status: Document, kind: str) -> Document:
    """The status without the condition of that type."""
    conditions = status.get("conditions") or ()
    return {**status, "conditions": [each for each in conditions if each.get("type") != kind]}


def has_deadline(deployment: Document) -> bool:
    """Whether a rollout that stands still is to be complained about."""
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, UNLIMITED)


def paused_status(deployment: Document, now_ns: int) -> Document | None:
    """The status that says it was paused or resumed, where that is not said yet; the deadline begins anew then."""
    known = condition_of(deployment, PROGRESSING) or {}
    is_paused, is_said = bool(deployment["spec"].get("paused")), known.get("reason") == PAUSED
    if not has_deadline(deployment) or known.get("reason") == TIMED_OUT or is_paused == is_said:
        return None
    reason, message = (PAUSED, "Deployment is paused") if is_paused else (RESUMED, "Deployment is resumed")
    new = condition(PROGRESSING, "Unknown", reason, message, now_ns)
    return with_condition(deployment.get("status") or {}, new)


def counted_status(deployment: Document, new: Document | None, old: Iterable[Document], now_ns: int) -> Document:
    """The counters and whether enough pods are available."""
    sets = [*old, *([] if new is None else [new])]
    known = deployment.get("status") or {}
    available = _sum(sets, "availableReplicas")
    asked = sum(map(replicas_of, sets))
    counters = {
        "observedGeneration": deployment["metadata"].get("generation") or 0,
        "replicas": _sum(sets, "replicas"),
        "updatedReplicas": 0 if new is None else _sum([new], "replicas"),
        "readyReplicas": _sum(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(asked - available, 0),
    }
    kept = {key: value for key, value in known.items() if key not in (*counters, "terminatingReplicas")}
    status = {**kept, **{key: value for key, value in counters.items() if value}}
    leaving = _terminating(sets)
    if leaving is not None:
        status["terminatingReplicas"] = leaving
    if available >= rollout_of(deployment).min_available:
        text, reason = "Deployment has minimum availability.", "MinimumReplicasAvailable"
        return with_condition(status, condition(AVAILABLE, "True", reason, text, now_ns))
    text, reason = "Deployment does not have minimum availability.", "MinimumReplicasUnavailable"
    return with_condition(status, condition(AVAILABLE, "False", reason, text, now_ns))


def rollout_status(deployment: Document, new: Document | None, old: list[Document], now_ns: int) -> Document:
    """The counters, how the rollout is getting on, and what keeps its sets from making pods."""
    status = counted_status(deployment, new, old, now_ns)
    if not has_deadline(deployment):
        status = without_condition(status, PROGRESSING)
    else:
        status = _with_progress(deployment, status, new, now_ns)
    failures = [condition_of(each, REPLICA_FAILURE) for each in (*([] if new is None else [new]), *old)]
    failure = next((each for each in failures if each is not None), None)
    if failure is None:
        return without_condition(status, REPLICA_FAILURE)
    told = {**failure, "lastUpdateTime": failure.get("lastTransitionTime")}
    return with_condition(status, told)


def is_complete(deployment: Document, status: Document) -> bool:
    """All pods are new ones and available, and no old one is left."""
    wanted = replicas_of(deployment)
    counters = ("updatedReplicas", "replicas", "availableReplicas")
    is_seen = (status.get("observedGeneration") or 0) >= (deployment["metadata"].get("generation") or 0)
    return is_seen and all((status.get(key) or 0) == wanted for key in counters)


def deadline_ns(deployment: Document) -> int | None:
    """When a rollout that is under way will have stood still for too long; None where none is under way."""
    status = deployment.get("status") or {}
    known = condition_of(deployment, PROGRESSING)
    if known is None or not has_deadline(deployment) or known.get("reason") == TIMED_OUT:
        return None
    if is_complete(deployment, status) or deployment["spec"].get("paused"):
        return None
    return _late_ns(deployment, known)


def _with_progress(deployment: Document, status: Document, new: Document | None, now_ns: int) -> Document:
    known = condition_of(deployment, PROGRESSING)
    is_done = known is not None and known.get("reason") == COMPLETE
    if is_done and (status.get("replicas") or 0) == (status.get("updatedReplicas") or 0):
        return status
    which = f"Deployment {quote(deployment['metadata']['name'])}"
    if new is not None:
        which = f"ReplicaSet {quote(new['metadata']['name'])}"
    if is_complete(deployment, status):
        return with_condition(
            status, condition(PROGRESSING, "True", COMPLETE, f"{which} has successfully progressed.", now_ns)
        )
    if _has_moved(deployment.get("status") or {}, status):
        moved = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{which} is progressing.", now_ns)
        # The time of the last word is what the deadline counts from, so it is said again with each step.
        return with_condition(status, moved, is_repeated=True)
    if _is_timed_out(deployment, known, now_ns):
        late = condition(PROGRESSING, "False", TIMED_OUT, f"{which} has timed out progressing.", now_ns)
        return with_condition(status, late)
    return status


def _has_moved(before: Document, after: Document) -> bool:
    """More new pods, more ready or available ones, or fewer old ones."""

    def old_pods(status: Document) -> int:
        return (status.get("replicas") or 0) - (status.get("updatedReplicas") or 0)

    keys = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_pods(after) < old_pods(before) or any((after.get(key) or 0) > (before.get(key) or 0) for key in keys)


def _is_timed_out(deployment: Document, known: Document | None, now_ns: int) -> bool:
    if known is None or known.get("reason") == COMPLETE:
        return False
    if known.get("reason") == TIMED_OUT:
        return True
    return _late_ns(deployment, known) < now_ns


def _late_ns(deployment: Document, known: Document) -> int:
    """The deadline after the last word about progress; a time that cannot be read is long ago."""
    seconds: int = deployment["spec"]["progressDeadlineSeconds"]
    try:
        return parse_time(known.get("lastUpdateTime") or "") + seconds * _SECOND_NS
    except ManifestError:
        return 0


def _sum(sets: Iterable[Document], key: str) -> int:
    return sum((each.get("status") or {}).get(key) or 0 for each in sets)


def _terminating(sets: Iterable[Document]) -> int | None:
    """None where a set does not tell, as those of an older Kubernetes do not; one that is new has none."""
    total = 0
    for each in sets:
        status = each.get("status") or {}
        leaving = status.get("terminatingReplicas")
        if leaving is None and status.get("observedGeneration"):
            return None
        total += leaving or 0
    return total
