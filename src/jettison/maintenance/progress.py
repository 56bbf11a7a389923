"""How far it is: counts of pods by what they are at, and why budgets refuse, told when they change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final

from jettison.engine.drain.filters import NodePod
from jettison.maintenance.settings import Voice

_REPORT_SECONDS: Final = 1.0


class Stage(Enum):
    """What a pod is at; the value is how a line of progress calls it."""

    ASKED = "asked to go"
    REFUSED = "refused"
    STOPPING = "stopping"
    GONE = "gone"
    FAILED = "failed"


class Progress:
    """The stages of some pods. `label` says which: the node they are on."""

    def __init__(self, label: str, pods: Iterable[NodePod], voice: Voice) -> None:
        self._label = label
        self._voice = voice
        self._stages = {str(pod): Stage.ASKED for pod in pods}
        self._causes: dict[str, str] = {}
        self._told: tuple[str, ...] = ()

    def moved(self, pod: NodePod, stage: Stage, cause: str = "") -> None:
        """Note it; it is told with the next report."""
        self._stages[str(pod)] = stage
        if cause:
            self._causes[str(pod)] = f"{pod.namespace}: {cause}"

    async def report_for_ever(self) -> None:
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
