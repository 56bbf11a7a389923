"""Making pods go: ask, wait out refusals, wait until the pod is gone, and tell how far that is.

Texts and pauses are kubectl's, also for pods that are evicted by name, for which kubectl has no command.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from jettison.clock import Clock
from jettison.engine.drain.filters import overdue
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.api_pod import ApiPod
from jettison.errors import ApiError, Conflict, JettisonError, NotFound, RuntimeFailure
from jettison.maintenance.settings import DryRun, EvictionSettings, Voice
from jettison.manifests.pod_view import checked_pod
from jettison.runtimes.kube.answers import causes, has_cause, server_text
from jettison.runtimes.kube.client import DeleteOptions, KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.values import frozen

POLL_SECONDS: Final = 1.0
_MOST_POLLS_A_SECOND: Final = 50
_TOO_MANY_REQUESTS: Final = 429
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
_REPORT_SECONDS: Final = 1.0


class Deadline:
    """A timeout that holds: one moment for everything that is done for a node.

    Begins when it is made; 0 ns never ends. To be made inside a running event loop.
    """

    def __init__(self, timeout_ns: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = None if timeout_ns == 0 else self._loop.time() + timeout_ns / SECOND_NS
        self.text = duration_text(timeout_ns)

    @property
    def has_passed(self) -> bool:
        """Is it too late to begin anything?"""
        return self._at is not None and self._loop.time() >= self._at

    def limit(self) -> asyncio.Timeout:
        """For `async with`: a TimeoutError ends whatever is awaited inside when the moment comes."""
        return asyncio.timeout_at(self._at)

    async def pause(self, seconds: float) -> None:
        """Sleep, but not beyond the end."""
        left = seconds if self._at is None else min(seconds, self._at - self._loop.time())
        await asyncio.sleep(max(left, 0))


class Stage(Enum):
    """What a pod is at; the value is how a line of progress calls it."""

    ASKED = "asked to go"
    REFUSED = "refused"
    STOPPING = "stopping"
    GONE = "gone"
    FAILED = "failed"


class Progress:
    """The stages of some pods. `label` says which: the node they are on."""

    def __init__(self, label: str, pods: Iterable[ApiPod], voice: Voice) -> None:
        self._label = label
        self._voice = voice
        self._stages = {str(pod): Stage.ASKED for pod in pods}
        self._causes: dict[str, str] = {}
        self._told: tuple[str, ...] = ()

    def moved(self, pod: ApiPod, stage: Stage, cause: str = "") -> None:
        """Note it; it is told with the next report."""
        self._stages[str(pod)] = stage
        if cause:
            self._causes[str(pod)] = f"{pod.namespace}: {cause}"

    async def report_until_cancelled(self) -> None:
        """Tell at most once a second; to be cancelled."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            self.report()

    def report(self) -> None:
        """Tell what changed since the last time: the counts, and each cause of refusals with how many it holds."""
        lines = tuple(self._lines())
        for line in lines:
            if line not in self._told:
                self._voice.report(line)
        self._told = lines

    def _lines(self) -> Iterable[str]:
        counts = Counter(self._stages.values())
        others = (f"{counts[stage]} {stage.value}" for stage in Stage if stage is not Stage.GONE and counts[stage])
        gone = f"{counts[Stage.GONE]} of {len(self._stages)} pods gone"
        yield f"{self._label}: {', '.join((gone, *others))}"
        refused = (self._causes[name] for name, stage in self._stages.items() if stage is Stage.REFUSED)
        for cause, count in Counter(refused).items():
            yield f"{self._label}: {count} refused in {cause}"


@frozen
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

    async def evict(self, pod: ApiPod, version: str) -> Failed | None:
        """Until the pod is gone; None then. A pod that another client removed is as good as evicted."""
        failed = await self._evict(pod, version)
        self._progress.moved(pod, Stage.FAILED if failed else Stage.GONE)
        return failed

    async def delete(self, pod: ApiPod) -> None:
        """Without asking any budget. Raises what the API answers, unless the pod is gone already."""
        try:
            async with self._deadline.limit():
                await self._client.delete(PODS, pod.name, pod.namespace, self._options(pod))
        except NotFound:
            return
        except Conflict:
            if await self._reread(pod) is not None:
                raise

    async def departure(self, pod: ApiPod, verb: str) -> None:
        """Return when the pod is gone, or is overdue by so much that waiting is of no use."""
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

    async def _evict(self, pod: ApiPod, version: str) -> Failed | None:
        current: ApiPod | None = pod
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

    async def _wait(self, pod: ApiPod) -> Failed | None:
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

    async def _found(self, pod: ApiPod) -> ApiPod | None:
        """The very pod, as it is now; None: it is gone, though one of its name may be there."""
        try:
            found = checked_pod(await self._client.get(PODS, pod.name, pod.namespace))
        except NotFound:
            return None
        return found if found.uid == pod.uid else None

    async def _reread(self, pod: ApiPod) -> ApiPod | None:
        """As `_found`; a failure is nothing new: the next eviction will meet it."""
        try:
            async with self._deadline.limit():
                return await self._found(pod)
        except (ApiError, RuntimeFailure, TimeoutError):
            return pod

    def _options(self, pod: ApiPod) -> DeleteOptions:
        return DeleteOptions(self._settings.grace_seconds, pod.uid, self._settings.dry_run is DryRun.SERVER)

    def _late(self, pod: ApiPod) -> Failed:
        return Failed(f"{_when_evicting(pod)}: global timeout reached: {self._deadline.text}")

    def _retry_text(self, pod: ApiPod, error: JettisonError) -> str:
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


def _is_ending(pod: ApiPod, error: ApiError) -> bool:
    """In a namespace that is being deleted nothing new may be made, not even an eviction; a pod may be going anyway."""
    return has_cause(error, _NAMESPACE_TERMINATING) and pod.is_terminating


def _failure(pod: ApiPod, error: JettisonError) -> Failed:
    is_refusal = isinstance(error, ApiError) and error.code == _TOO_MANY_REQUESTS
    cause = causes(error) if isinstance(error, ApiError) else ""
    return Failed(f"{_when_evicting(pod)}: {error}", is_refusal, cause)


def _when_evicting(pod: ApiPod) -> str:
    return f"error when evicting pods/{quote(pod.name)} -n {quote(pod.namespace)}"


class Evicted(Enum):
    """How it went for all pods together."""

    ALL = auto()
    REFUSED = auto()
    """Budgets said no to some, for now; nothing else went wrong."""
    FAILED = auto()


async def evict_pods(
    client: KubeClient, namespace: str, names: Sequence[str], settings: EvictionSettings, voice: Voice, clock: Clock
) -> Evicted:
    """Evict them all at once. If one of them does not exist, none is touched."""
    deadline = Deadline(settings.timeout_ns)
    try:
        async with deadline.limit():
            pods = await _read(client, namespace, names, voice)
            if pods is None:
                return Evicted.FAILED
            version = await client.eviction_version()
    except TimeoutError:
        voice.complain(f"error: global timeout reached: {deadline.text}")
        return Evicted.FAILED
    if not version:
        voice.complain("error: the server knows no evictions, pods can only be deleted there")
        return Evicted.FAILED
    if settings.dry_run is DryRun.CLIENT:
        for pod in pods:
            voice.say(f"evicting pod {pod}{DryRun.CLIENT.suffix}")
        return Evicted.ALL
    progress = Progress(f"namespace/{namespace}", pods, voice)
    evictor = Evictor(client, settings, deadline, voice, progress, clock)
    reports = asyncio.create_task(progress.report_until_cancelled())
    try:
        failures = await asyncio.gather(*(evictor.evict(pod, version) for pod in pods))
    finally:
        reports.cancel()
        progress.report()
    return _judged([failed for failed in failures if failed is not None], voice)


async def _read(client: KubeClient, namespace: str, names: Sequence[str], voice: Voice) -> list[ApiPod] | None:
    """None if one could not be read, which has then been said."""
    pods: list[ApiPod] = []
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        try:
            pods.append(checked_pod(await client.get(PODS, name, namespace)))
        except ApiError as error:
            voice.complain(server_text(error))
    return pods if len(pods) == len(wanted) else None


def _judged(failures: Sequence[Failed], voice: Voice) -> Evicted:
    for failed in failures:
        voice.complain(f"{failed.text} ({failed.cause})" if failed.is_refusal else failed.text)
    if not failures:
        return Evicted.ALL
    return Evicted.REFUSED if all(failed.is_refusal for failed in failures) else Evicted.FAILED
