"""Evictions: a deletion that asks the disruption budgets first.

The decision is the engine's (`judge_guarded`). Carrying it out takes two or three writes: the budget is spent, the pod
gets a condition that says why, the pod is deleted. Upstream loses half a second whenever another client writes the
budget in between. Here all three are made on the head of the store without an `await`, so no other write comes between:
the loop that Kubernetes needs around the budget's write has nothing to repeat, and all three share one wait for the
disk. Evictions that wait for it together share the write of their budget as well.

The other loop, around pods that need no budget, is kept, because a client sees the difference: a uid that does not
match is tried again for ten seconds, although it cannot succeed. With `strict_evictions` it is answered at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from jettison.apiserver.http.bodies import Expected, read_object
from jettison.apiserver.http.requests import Request, WriteOptions
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.ownership.tracking import Writer, track
from jettison.apiserver.objects.resources import BUDGETS, PODS
from jettison.apiserver.objects.validation.mistakes import invalid, refusal
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Change, ChangeType, Stored
from jettison.apiserver.verbs.deletion import DeleteOptions, Deletions, at_version, check_preconditions
from jettison.clock import Clock
from jettison.engine.budgets.budget import EXACT, ApiSwitches, Budget, BudgetStatus
from jettison.engine.budgets.verdict import (
    Allowance,
    Allowed,
    Refusal,
    Refused,
    Verdict,
    judge_guarded,
    unprocessed,
)
from jettison.engine.labels.selectors import NOTHING, LabelSelector, select
from jettison.engine.pods.api_pod import ApiPod
from jettison.errors import ApiError, Conflict, InputError
from jettison.manifests.budgets import budget_from, budget_status_data
from jettison.manifests.pod_view import PodView
from jettison.manifests.times import time_text
from jettison.values import frozen

Json = dict[str, Any]
Key = tuple[str, str]

EVICTION: Final = Expected("Eviction", ("policy/v1", "policy/v1beta1"), "Eviction")
LONGEST_SECONDS: Final = 34.0
_TIMED_OUT: Final = "Timeout: request did not complete within requested timeout - context deadline exceeded"
_LOOK_SECONDS: Final = 0.01
# As Kubernetes' server calls itself where it writes the status of a budget.
_SPENDER: Final = "kube-apiserver"
_CONDITION: Final = "DisruptionTarget"
_REASON: Final = "EvictionByEvictionAPI"
_MESSAGE: Final = "Eviction API: evicting"
_NO_OPTIONS: Final = DeleteOptions()
_IGNORES_ERRORS: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"


@frozen
class Settings:
    """How long evictions wait and retry, and where they differ from Kubernetes'."""

    attempts: int = 20
    pause_seconds: float = 0.5
    # For how long a budget whose spec has just changed may be counted before an eviction is told to come back later.
    patience_seconds: float = 0.25
    # For how long evictions of a budget wait for the client that counts it. Two requests and a count of a thousand
    # pods take ten milliseconds on a busy machine.
    turn_seconds: float = 0.025
    switches: ApiSwitches = EXACT

    @property
    def strict(self) -> bool:
        """Check first, and do not repeat what cannot succeed."""
        return self.switches.strict_evictions


class Order(NamedTuple):
    """A checked request: which pod, and how to delete it."""

    namespace: str
    name: str
    options: DeleteOptions

    @property
    def is_dry_run(self) -> bool:
        """A list that is not empty, whatever is in it; a wrong word is found when the pod is deleted."""
        return bool(self.options.dry_run)

    @property
    def has_own_version(self) -> bool:
        """Whether the client insists on a version; an empty one counts."""
        return self.options.version is not None


def read_eviction(request: Request, options: WriteOptions) -> Json:
    """The body."""
    return read_object(request, EVICTION, options.validation)


def check_eviction(body: Json, namespace: str, name: str, query: WriteOptions) -> Order:
    """The order in a body; 400, 422 or 500 for what cannot be."""
    if body["metadata"].get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    asked = body.get("deleteOptions") or {}
    if asked.get(_IGNORES_ERRORS):
        why = "can not be set for pod eviction, try after removing the option"
        raise refusal("policy", "Eviction", name, [invalid(f"deleteOptions.{_IGNORES_ERRORS}", True, why)])
    options = DeleteOptions.of(asked) if asked else _NO_OPTIONS
    if not query.dry_run or query.dry_run == options.dry_run:
        return Order(namespace, name, options)
    if options.dry_run:
        shown = [f"[{' '.join(each)}]" for each in (query.dry_run, options.dry_run)]
        raise ApiError(f"Non-matching dry-run options in request and content: {shown[0]} and {shown[1]}")
    return Order(namespace, name, replace(options, dry_run=query.dry_run))


class _Known(NamedTuple):
    """A budget as a value, and what it was read from, or written as when it was spent."""

    stored: Stored
    budget: Budget
    selector: LabelSelector


class Evictions:
    """Carries out orders on a store."""

    def __init__(self, store: Store, clock: Clock, settings: Settings | None = None) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings or Settings()
        self._deletions = Deletions(store)
        self.turns = Turns(self._settings.turn_seconds)
        # Budgets as values, by name: reading one takes longer than judging by it.
        self._known: dict[tuple[str, str], _Known] = {}
        # How each was written when it was last spent. Evictions that come together spend it in one write.
        self._spent: dict[tuple[str, str], Stored] = {}
        # Which generation of a budget's spec is the newest, and since when.
        self._specified: dict[tuple[str, str], tuple[int, int]] = {}
        store.follow(BUDGETS, store.version, self._notice)

    async def evict(self, order: Order, seconds: float = LONGEST_SECONDS) -> None:
        """Delete the pod, or raise what the client is to be told."""
        deadline = self._clock.monotonic_ns() + int(min(seconds, LONGEST_SECONDS) * 10**9)
        for left in reversed(range(self._settings.attempts)):
            found, verdict = await self._judge(order)
            try:
                if self._carry_out(order, found, verdict, may_retry=left > 0):
                    return
            finally:
                await self._store.settled()
            pause = self._settings.pause_seconds * (1 + random.random() / 10)  # noqa: S311  no secret
            if self._clock.monotonic_ns() + int(pause * 10**9) > deadline:
                raise ApiError(_TIMED_OUT, code=504, reason="Timeout", details={})
            await asyncio.sleep(pause)

    async def _judge(self, order: Order) -> tuple[Stored, Allowed]:
        """May the pod be evicted? A refusal is raised. The answer holds until the caller awaits something."""
        while True:
            found = self._store.head(PODS, order.namespace, order.name)
            if found is None:
                raise self._store.missing(PODS, order.namespace, order.name)
            if self._settings.strict:
                order.options.check()
                check_preconditions(PODS, found, order.options, take_empty=True)
            pod = PodView(found.object)
            verdict = judge_guarded(pod, self._guarding(pod), self._clock.now_ns(), self._settings.switches)
            turn = self._turn_before(verdict)
            if turn is not None:
                await asyncio.shield(turn)
            elif isinstance(verdict, Refused):
                if not self._is_about_to_be_counted(verdict):
                    raise refused(verdict)
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return found, verdict

    def _is_about_to_be_counted(self, verdict: Refused) -> bool:
        """Whether the only reason is that the budget's spec is so new that the controller cannot have counted it yet.

        Kubernetes takes longer over a write than its controller over the answer to it; here it is the other way round.
        """
        budget = verdict.budget
        if budget is None or not verdict.retry_after_seconds:
            return False
        generation, since_ns = self._specified.get((budget.namespace, budget.name), (0, 0))
        is_new = generation > budget.status.observed_generation
        return is_new and self._clock.monotonic_ns() < since_ns + int(self._settings.patience_seconds * 10**9)

    def _turn_before(self, verdict: Verdict) -> asyncio.Future[None] | None:
        """The turn of the client that counts one of these budgets, if one has a turn."""
        if not self.turns.are_given:
            return None
        asked = (verdict, *verdict.further) if isinstance(verdict, Allowed) else (verdict,)
        keys = [(each.budget.namespace, each.budget.name) for each in asked if each.budget is not None]
        return next((turn for key in keys if (turn := self.turns.of(key)) is not None), None)

    def _carry_out(self, order: Order, found: Stored, verdict: Allowed, *, may_retry: bool) -> bool:
        """Write everything, without waiting for the disk. False: the pod changed meanwhile, look again."""
        now_ns = self._clock.now_ns()
        if verdict.allowance is Allowance.EXEMPT:
            return self._evict_exempt(order, found, now_ns, may_retry=may_retry)
        if verdict.allowance is Allowance.UNHEALTHY and verdict.budget is not None:
            self._evict_unhealthy(order, found, verdict.budget, now_ns)
            return True
        for each in (verdict, *verdict.further):
            if each.status is not None and each.budget is not None and not order.is_dry_run:
                self._spend(each.budget, each.status, order.name, now_ns)
        self._commit(order, found, order.options, now_ns)
        return True

    def _evict_exempt(self, order: Order, found: Stored, now_ns: int, *, may_retry: bool) -> bool:
        """A pending pod may have become a running one: then it must be judged again, so its version is insisted on."""
        options = order.options
        is_pending = found.object["status"].get("phase") == "Pending" and "deletionTimestamp" not in found.metadata
        if is_pending and not order.has_own_version:
            options = replace(options, version=found.metadata["resourceVersion"])
        try:
            self._commit(order, found, options, now_ns)
        except Conflict:
            if order.has_own_version or self._settings.strict or not may_retry:
                raise
            return False
        return True

    def _evict_unhealthy(self, order: Order, found: Stored, budget: Budget, now_ns: int) -> None:
        """Only in the version that was judged unhealthy: a pod that changed meanwhile needs the budget."""
        options = order.options
        if not (self._settings.strict and order.has_own_version):
            options = replace(options, version=found.metadata["resourceVersion"])
        try:
            self._commit(order, found, options, now_ns)
        except Conflict as error:
            if order.has_own_version:
                raise
            raise refused(unprocessed(budget)) from error

    def _commit(self, order: Order, found: Stored, options: DeleteOptions, now_ns: int) -> None:
        """Write the reason on the pod, then delete it: a client that sees the deletion also sees the reason."""
        if not order.is_dry_run:
            check_preconditions(PODS, found, options, take_empty=True)
            found = self._store.put(PODS, *found.key, _with_condition(found.object, now_ns), is_for_removal=True)
            options = at_version(options, str(found.version))
        options.check()
        self._deletions.delete_found(PODS, found, options, now_ns)

    def _guarding(self, pod: ApiPod) -> Iterator[Budget]:
        """The budgets that select the pod. Those that are being deleted count, those that make no sense do not."""
        for storage, key in self._store.set_aside:
            if storage == BUDGETS.storage and key[0] == pod.namespace:
                # It may guard this pod: a budget that cannot be read does not allow anything.
                raise self._store.missing(BUDGETS, *key)
        for durable in self._store.list(BUDGETS, pod.namespace)[0]:
            # The head, which may not be durable yet. If the disk refuses it, it is undone, and no other write gets its
            # version.
            stored = self._store.head(BUDGETS, *durable.key)
            if stored is None:
                continue
            known = self._known.get(stored.key)
            if known is None or known.stored is not stored:
                known = self._known[stored.key] = _read_budget(stored)
            if known.selector.matches(pod.labels):
                yield known.budget

    def _spend(self, budget: Budget, spent: BudgetStatus, pod_name: str, now_ns: int) -> None:
        key = (budget.namespace, budget.name)
        # As it was judged, so it still is: nothing was awaited since.
        known = self._known[key]
        value = known.stored.object
        old = value["status"]
        if spent.disruptions_allowed:
            # Only two fields differ, and there may be thousands of disrupted pods.
            disrupted = {**(old.get("disruptedPods") or {}), pod_name: time_text(now_ns)}
            status = {**old, "disruptedPods": disrupted, "disruptionsAllowed": spent.disruptions_allowed}
        else:
            status = {**old, **budget_status_data(spent)}
        tracking = partial(track, Writer(BUDGETS, _SPENDER, "status", time_text(now_ns)))
        stored = self._store.amend(known.stored, {**value, "status": status}, tracking, self._spent.get(key))
        self._spent[key] = stored
        self._known[key] = _Known(stored, budget.with_status(spent), known.selector)

    def _notice(self, change: Change) -> None:
        key, generation = change.stored.key, change.stored.metadata.get("generation", 0)
        if change.type is ChangeType.DELETED:
            self._known.pop(key, None)
            self._spent.pop(key, None)
            self._specified.pop(key, None)
        elif self._specified.get(key, (0, 0))[0] != generation:
            self._specified[key] = (generation, self._clock.monotonic_ns())


def _read_budget(stored: Stored) -> _Known:
    budget = budget_from(stored.object)
    try:
        selector = select(budget.selector)
    except InputError:
        selector = NOTHING
    return _Known(stored, budget, selector)


def _with_condition(pod: Json, now_ns: int) -> Json:
    """The pod with the reason of its end among its conditions. The time moves only when the status does: none stays."""
    conditions = list(pod["status"].get("conditions") or ())
    index = next((at for at, each in enumerate(conditions) if each["type"] == _CONDITION), len(conditions))
    old = conditions[index] if index < len(conditions) else {}
    changed_at = old.get("lastTransitionTime") if old.get("status") == "True" else time_text(now_ns)
    conditions[index : index + 1] = [
        {
            "lastProbeTime": None,
            **old,
            "type": _CONDITION,
            "status": "True",
            "lastTransitionTime": changed_at,
            "reason": _REASON,
            "message": _MESSAGE,
        }
    ]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def refused(verdict: Refused) -> ApiError:
    """The answer to a client that must wait, or can never succeed."""
    match verdict.refusal:
        case Refusal.SEVERAL_BUDGETS:
            return ApiError(verdict.message)
        case Refusal.NEGATIVE | Refusal.OVERFULL:
            name = verdict.budget.name if verdict.budget is not None else ""
            details: Json = {"name": name, "group": BUDGETS.group, "kind": BUDGETS.singular}
            return ApiError(verdict.message, code=403, reason="Forbidden", details=details)
        case _:
            details = {"causes": [{"reason": "DisruptionBudget", "message": verdict.cause}]}
            if verdict.retry_after_seconds:
                details["retryAfterSeconds"] = verdict.retry_after_seconds
            return ApiError(verdict.message, code=429, reason="TooManyRequests", details=details)


class Turns:
    """Evictions of a budget give way to the client that counts it; for one event loop.

    Evictions write a budget up to a thousand times a second, and on the head of the store they never conflict. The
    disruption controller reads the budget, counts, and writes it back with compare-and-swap: without help it would
    lose every time, until two thousand unconfirmed disruptions stop the evictions. So after its first conflict,
    evictions of that budget wait for its next attempt; not for long, because the client that lost may not come back.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._given: dict[Key, asyncio.Future[None]] = {}

    @property
    def are_given(self) -> bool:
        """Whether any client has a turn."""
        return bool(self._given)

    def of(self, key: Key) -> asyncio.Future[None] | None:
        """What to await before this budget is spent; not to be cancelled."""
        return self._given.get(key)

    def give(self, key: Key) -> None:
        """A write of the status met a newer one."""
        if key not in self._given:
            loop = asyncio.get_running_loop()
            self._given[key] = turn = loop.create_future()
            loop.call_later(self._seconds, self._end, key, turn)

    def end(self, key: Key) -> None:
        """The status is written."""
        turn = self._given.get(key)
        if turn is not None:
            self._end(key, turn)

    def _end(self, key: Key, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_result(None)
            del self._given[key]
