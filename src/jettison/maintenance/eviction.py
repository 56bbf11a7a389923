"""Making single pods go: ask, wait out refusals, wait until the pod is gone. Texts and pauses are kubectl's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from jettison.clock import Clock
from jettison.engine.drain.filters import NodePod, overdue
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict, JettisonError, NotFound, RuntimeFailure
from jettison.maintenance.deadline import Deadline
from jettison.maintenance.progress import Progress, Stage
from jettison.maintenance.settings import DryRun, EvictionSettings, Voice
from jettison.maintenance.wording import causes, has_cause
from jettison.manifests.node_pods import node_pod_from
from jettison.runtimes.kube.client import DeleteOptions, KubeClient
from jettison.runtimes.kube.kinds import PODS

POLL_SECONDS: Final = 1.0
_MOST_POLLS_A_SECOND: Final = 50
_TOO_MANY_REQUESTS: Final = 429
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a pod is still there. A refusal is a budget's, so that another try may succeed."""

    text: str
    is_refusal: bool = False
    cause: str = ""


class Evictor:
    """Makes pods go, any number at the same time, all before the same deadline."""

    def __init__(
        self,
        client: KubeClient,
        settings: EvictionSettings,
        deadline: Deadline,
        voice: Voice,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._client = client
        self._settings = settings
        self._deadline = deadline
        self._voice = voice
        self._progress = progress
        self._clock = clock
        self._waiting = 0

    async def evict(self, pod: NodePod, version: str) -> Failed | None:
        """Until the pod is gone; None then. A pod that somebody else removed is as good as evicted."""
        failed = await self._evict(pod, version)
        self._progress.moved(pod, Stage.FAILED if failed else Stage.GONE)
        return failed

    async def delete(self, pod: NodePod) -> None:
        """Without asking any budget. Raises what the API answers, unless the pod is gone already."""
        try:
            async with self._deadline.limit():
                await self._client.delete(PODS, pod.name, pod.namespace, self._options(pod))
        except NotFound:
            return
        except Conflict:
            if await self._reread(pod) is not None:
                raise

    async def departure(self, pod: NodePod, verb: str) -> None:
        """Return when the pod is gone, or is overdue by so much that nobody should wait for it."""
        self._progress.moved(pod, Stage.STOPPING)
        self._waiting += 1
        try:
            while (found := await self._found(pod)) is not None:
                skipped = self._settings.skip_wait_seconds
                if overdue(found.deadline_ns, skipped, self._clock.now_ns()):
                    text = f"has DeletionTimestamp older than {skipped} seconds, skipping"
                    self._voice.say(f"pod {quote(pod.name)} {text}")
                    return
                # With very many pods each is asked about less often, so that the server is not flooded.
                await asyncio.sleep(max(POLL_SECONDS, self._waiting / _MOST_POLLS_A_SECOND))
        finally:
            self._waiting -= 1
        self._progress.moved(pod, Stage.GONE)
        self._voice.say(f"pod/{pod.name} {verb}")

    async def _evict(self, pod: NodePod, version: str) -> Failed | None:
        current: NodePod | None = pod
        while current is not None:
            self._voice.say(f"evicting pod {pod}{self._settings.dry_run.suffix}")
            if self._deadline.has_passed:
                return self._late(pod)
            try:
                async with self._deadline.limit():
                    await self._client.evict(
                        pod.name,
                        pod.namespace,
                        self._options(pod),
                        version=version,
                        notice=lambda error, _: self._progress.moved(pod, Stage.REFUSED, causes(error)),
                    )
            except TimeoutError:
                return self._late(pod)
            except NotFound:
                return None
            except (ApiError, RuntimeFailure) as error:
                if isinstance(error, Conflict) and await self._reread(pod) is None:
                    return None
                if isinstance(error, ApiError) and _is_ending(current, error):
                    return await self._wait(pod)
                retry = self._retry_text(pod, error)
                if not retry or self._settings.retry_seconds is None:
                    return _failure(pod, error)
                self._voice.complain(retry)
                await self._deadline.pause(self._settings.retry_seconds)
                current = await self._reread(current)
            else:
                return await self._wait(pod)
        return None

    async def _wait(self, pod: NodePod) -> Failed | None:
        if self._settings.dry_run is DryRun.SERVER:
            return None
        if not self._settings.waits:
            self._voice.say(f"pod/{pod.name} eviction started")
            return None
        try:
            async with self._deadline.limit():
                await self.departure(pod, "evicted")
        except TimeoutError:
            said: object = "context deadline exceeded"
        except (ApiError, RuntimeFailure) as error:
            said = error
        else:
            return None
        where = f"pod {quote(pod.name)} in namespace {quote(pod.namespace)}"
        return Failed(f"error when waiting for {where} to terminate: {said}")

    async def _found(self, pod: NodePod) -> NodePod | None:
        """The very pod, as it is now; None: it is gone, though one of its name may be there."""
        try:
            found = node_pod_from(await self._client.get(PODS, pod.name, pod.namespace))
        except NotFound:
            return None
        return found if found.uid == pod.uid else None

    async def _reread(self, pod: NodePod) -> NodePod | None:
        """As `_found`; a failure is nothing new: the next eviction will meet it."""
        try:
            async with self._deadline.limit():
                return await self._found(pod)
        except (ApiError, RuntimeFailure, TimeoutError):
            return pod

    def _options(self, pod: NodePod) -> DeleteOptions:
        return DeleteOptions(self._settings.grace_seconds, pod.uid, self._settings.dry_run is DryRun.SERVER)

    def _late(self, pod: NodePod) -> Failed:
        return Failed(f"{_when_evicting(pod)}: global timeout reached: {self._deadline.text}")

    def _retry_text(self, pod: NodePod, error: JettisonError) -> str:
        """What is said before another try; empty where there is none."""
        if not isinstance(error, ApiError):
            return ""
        retry = f"(will retry after {duration_text(int((self._settings.retry_seconds or 0) * SECOND_NS))})"
        if error.code == _TOO_MANY_REQUESTS:
            self._progress.moved(pod, Stage.REFUSED, causes(error))
            return f"{_when_evicting(pod)} {retry}: {error}"
        if has_cause(error, _NAMESPACE_TERMINATING):
            where = f"pod {quote(pod.name)} from terminating namespace {quote(pod.namespace)}"
            return f"error when evicting {where} {retry}: {error}"
        return ""


def _is_ending(pod: NodePod, error: ApiError) -> bool:
    """In a namespace that is being deleted nothing new may be made, not even an eviction; a pod may be going anyway."""
    return has_cause(error, _NAMESPACE_TERMINATING) and pod.guarded.is_terminating


def _failure(pod: NodePod, error: JettisonError) -> Failed:
    is_refusal = isinstance(error, ApiError) and error.code == _TOO_MANY_REQUESTS
    cause = causes(error) if isinstance(error, ApiError) else ""
    return Failed(f"{_when_evicting(pod)}: {error}", is_refusal, cause)


def _when_evicting(pod: NodePod) -> str:
    return f"error when evicting pods/{quote(pod.name)} -n {quote(pod.namespace)}"
