"""Every pod that is to start: may it, and must other pods make room for it? (spec §10.4, §13)"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from jettison import events
from jettison.engine.config.allocatable import node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import Condition
from jettison.engine.numbers.quantity import Quantity
from jettison.engine.pods.admission import Admission, admit_under_pressure, shortages
from jettison.engine.pods.pod import ENDED_PHASES, Pod
from jettison.engine.pods.preemption import handle_admission_failure
from jettison.engine.scheduling.placement import NO_EXECUTE, Taint, first_untolerated
from jettison.errors import InputError, ManifestError
from jettison.events import Emit
from jettison.manifests.placement import matches_node
from jettison.runtimes.protocol import Hosting, PodManifest
from jettison.values import frozen

Preempt = Callable[[Eviction], Awaitable[None]]
"""Ends a pod; returns when it has stopped or was given up, in which case the killing goes on."""


@frozen
class NodeIdentity:
    """What a pod may ask of the node it runs on."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Taint] = ()


class Admitter:
    """Admits pods one after another: two at once would both see the same room.

    `check` raises a ManifestError for a pod that the runtime cannot run whatever room there is. Such a pod is admitted
    like any other, as a kubelet admits a pod before it pulls its images, and waits in the runtime.
    """

    def __init__(
        self,
        runtime: Hosting,
        policy: Policy,
        node: NodeIdentity,
        conditions: Callable[[], frozenset[Condition]],
        emit: Emit,
        preempt: Preempt,
        check: Callable[[PodManifest], object],
        *,
        is_dry_run: bool = False,
    ) -> None:
        self.runtime = runtime
        self.policy = policy
        self.node = node
        self.conditions = conditions
        self.emit = emit
        self._preempt = preempt
        self._check = check
        self._is_dry_run = is_dry_run
        self.allocatable: Mapping[str, Quantity] = node_allocatable(runtime.machine(), policy).allocatable

    def use(self, policy: Policy) -> None:
        """For pods that come from now on."""
        self.policy = policy
        self.allocatable = node_allocatable(self.runtime.machine(), policy).allocatable

    async def admit(self, manifest: PodManifest) -> bool:
        """Start the pod, or remember it as rejected."""
        pod = manifest.pod
        if self.runtime.is_found(pod.uid):
            await self.runtime.start(manifest)
            return True
        verdict = admit_under_pressure(pod, sorted(self.conditions()))
        if verdict.is_admitted:
            verdict = await self._fit(manifest)
        if not verdict.is_admitted:
            self.emit(events.PodRejected(pod, verdict.reason, verdict.message))
            await self.runtime.reject(manifest, verdict.reason, verdict.status_message)
            return False
        self.emit(events.PodAdmitted(pod))
        await self.runtime.start(manifest)
        return True

    async def _is_possible(self, manifest: PodManifest) -> bool:
        try:
            await asyncio.to_thread(self._check, manifest)
        except ManifestError:
            return False
        return True

    async def _fit(self, manifest: PodManifest) -> Admission:
        pod = manifest.pod
        # Aside: an affinity may have thousands of terms.
        elsewhere = await asyncio.to_thread(self._misplaced, manifest)
        others = [status.pod for status in self.runtime.statuses() if status.phase not in ENDED_PHASES]
        short = shortages(pod, others, self.allocatable)
        if not short and elsewhere is None:
            return Admission(True)
        recovery = handle_admission_failure(pod, others, short, () if elsewhere is None else (elsewhere.reason,))
        if recovery.error is not None:
            said = f"Unexpected error while attempting to recover from admission failure: {recovery.error}"
            return Admission(False, "UnexpectedAdmissionError", said)
        if recovery.remaining:
            # Upstream reports the first check that failed, and resources are checked first.
            return short[0].refusal if short and not pod.is_critical else elsewhere or short[0].refusal
        if recovery.evictions and not await self._is_possible(manifest):
            # It waits without using anything, and no pod makes room for that.
            return Admission(True)
        if self._is_dry_run and recovery.evictions:
            names = ", ".join(str(order.pod) for order in recovery.evictions)
            said = f"{short[0].refusal.message}; but for the dry run {names} would have made room"
            return Admission(False, short[0].refusal.reason, said)
        for order in recovery.evictions:
            await self._preempt(order)
        return Admission(True)

    def _misplaced(self, manifest: PodManifest) -> Admission | None:
        """A pod made for another node."""
        spec = manifest.document.get("spec") or {}
        try:
            fits = matches_node(spec, self.node.labels, self.node.name)
        except InputError as error:
            return _predicate("NodeAffinity", str(error))
        if not fits:
            return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        if spec.get("nodeName") not in (None, "", self.node.name):
            return _predicate("NodeName", "node(s) didn't match the requested node name")
        return self._untolerated(manifest.pod)

    def _untolerated(self, pod: Pod) -> Admission | None:
        if pod.is_static:
            return None
        driving_away = [taint for taint in self.node.taints if taint.effect == NO_EXECUTE]
        if first_untolerated(driving_away, pod.tolerations) is None:
            return None
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, description: str) -> Admission:
    return Admission(False, name, f"Predicate {name} failed: {description}")
