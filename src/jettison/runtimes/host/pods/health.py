"""Whether a container has started, is ready, and still lives: its probes taken together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from jettison.runtimes.host.pods import probes
from jettison.runtimes.host.pods.probes import RunCommand
from jettison.runtimes.host.specs.probes import ProbeKind, ProbeSpec


class Patient(Protocol):
    """Who is told."""

    def on_started(self) -> None:
        """The startup probe has succeeded."""

    def on_readiness(self, *, is_ready: bool, why: str) -> None:
        """The readiness probe has changed its mind."""

    def on_failure(self, spec: ProbeSpec, why: str) -> None:
        """A startup or liveness probe gave the container up: it must be ended."""


class Health:
    """The probes of one container, over one run after another."""

    __slots__ = ("_is_ready", "_patient", "_run_command", "_specs", "_tasks")

    def __init__(self, specs: Iterable[ProbeSpec], run_command: RunCommand, patient: Patient) -> None:
        self._specs = {spec.kind: spec for spec in specs}
        self._run_command = run_command
        self._patient = patient
        self._is_ready = False
        self._tasks: dict[ProbeKind, asyncio.Task[None]] = {}

    @property
    def is_ready(self) -> bool:
        """Never before it has started; without a readiness probe as soon as it has."""
        return self._is_ready

    @property
    def starts_by_itself(self) -> bool:
        """Nothing has to be asked before it counts as started."""
        return ProbeKind.STARTUP not in self._specs

    def begin(self, *, is_started: bool, age: float = 0.0) -> None:
        """The container runs, for `age` seconds already."""
        if is_started:
            self._go_on(age)
        else:
            self._watch(ProbeKind.STARTUP, age)

    def expect_end(self) -> None:
        """It has been told to end: nobody gives it up any more, but it is as ready as it says until it has ended."""
        for kind in (ProbeKind.STARTUP, ProbeKind.LIVENESS):
            if (task := self._tasks.pop(kind, None)) is not None:
                task.cancel()

    def end(self) -> None:
        """The container does not run any more."""
        self._is_ready = False
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _go_on(self, age: float) -> None:
        self._is_ready = ProbeKind.READINESS not in self._specs
        for kind in (ProbeKind.LIVENESS, ProbeKind.READINESS):
            if kind in self._specs:
                self._watch(kind, age)

    def _watch(self, kind: ProbeKind, age: float) -> None:
        spec = self._specs[kind]

        def tell(is_well: bool, why: str) -> None:
            self._on_verdict(spec, why, is_well=is_well)

        self._tasks[kind] = asyncio.create_task(probes.watch(spec, self._run_command, tell, age))

    def _on_verdict(self, spec: ProbeSpec, why: str, *, is_well: bool) -> None:
        if spec.kind is ProbeKind.READINESS:
            self._is_ready = is_well
            self._patient.on_readiness(is_ready=is_well, why=why)
        elif not is_well:
            self.expect_end()
            self._patient.on_failure(spec, why)
        elif spec.kind is ProbeKind.STARTUP:
            self.end()
            # Initial delays count from the start of the container, and that was at least this probe ago.
            self._go_on(float(spec.initial_delay))
            self._patient.on_started()
