"""Probes taken together: the startup probe first, then the others; readiness only while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jettison.runtimes.host.pods.health import Health
from jettison.runtimes.host.specs.probes import ExecAction, ProbeKind, ProbeSpec
from tests.runtimes.host.scenes import until


class Patient:
    """Answers as it is told and remembers what it hears."""

    def __init__(self) -> None:
        self.codes = {"startup": 0, "liveness": 0, "readiness": 0}
        self.asked: list[str] = []
        self.heard: list[str] = []

    async def run_command(self, command: tuple[str, ...]) -> int | None:
        self.asked.append(command[0])
        return self.codes[command[0]]

    def on_started(self) -> None:
        self.heard.append("started")

    def on_readiness(self, *, is_ready: bool, why: str) -> None:
        self.heard.append("ready" if is_ready else f"unready: {why}")

    def on_failure(self, spec: ProbeSpec, why: str) -> None:
        self.heard.append(f"{spec.kind} failed: {why}")


def spec(kind: ProbeKind) -> ProbeSpec:
    return ProbeSpec(kind, ExecAction((kind.value,)), period=1, failures=1)


def play(kinds: list[ProbeKind], scenario: Callable[[Health, Patient], Awaitable[None]]) -> None:
    async def run() -> None:
        patient = Patient()
        health = Health([spec(kind) for kind in kinds], patient.run_command, patient)
        await scenario(health, patient)
        health.end()

    asyncio.run(run())


def test_without_probes_a_container_is_ready_while_it_runs() -> None:
    async def scenario(health: Health, _: Patient) -> None:
        assert health.starts_by_itself
        states = [health.is_ready]
        health.begin(is_started=True)
        states.append(health.is_ready)
        health.end()
        assert [*states, health.is_ready] == [False, True, False]

    play([], scenario)


def test_nothing_is_asked_before_the_startup_probe_has_succeeded() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        assert not health.starts_by_itself
        patient.codes["startup"] = 1
        patient.codes["readiness"] = 1
        health.begin(is_started=False)
        await until(lambda: bool(patient.heard))
        assert patient.heard == ["startup failed: `startup` exited with 1"]
        assert set(patient.asked) == {"startup"}
        assert not health.is_ready
        patient.heard.clear()
        patient.codes["startup"] = 0
        health.begin(is_started=False)
        await until(lambda: len(patient.heard) > 1)
        assert patient.heard == ["started", "unready: `readiness` exited with 1"]
        assert {"liveness", "readiness"} <= set(patient.asked)

    play(list(ProbeKind), scenario)


def test_a_container_that_had_started_before_the_agent_died_is_not_asked_again() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        health.begin(is_started=True, age=100)
        await until(lambda: health.is_ready)
        assert "startup" not in patient.asked

    play([ProbeKind.STARTUP, ProbeKind.READINESS], scenario)


def test_readiness_comes_and_goes() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        health.begin(is_started=True)
        assert not health.is_ready
        await until(lambda: health.is_ready)
        patient.codes["readiness"] = 1
        await until(lambda: not health.is_ready)
        assert patient.heard == ["ready", "unready: `readiness` exited with 1"]

    play([ProbeKind.READINESS], scenario)


def test_what_is_being_ended_is_asked_only_whether_it_is_ready() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        health.begin(is_started=True)
        await until(lambda: health.is_ready and "liveness" in patient.asked)
        health.expect_end()
        assert health.is_ready
        patient.asked.clear()
        patient.codes |= {"liveness": 1, "readiness": 1}
        await until(lambda: not health.is_ready)
        assert set(patient.asked) == {"readiness"}
        assert patient.heard == ["ready", "unready: `readiness` exited with 1"]

    play([ProbeKind.LIVENESS, ProbeKind.READINESS], scenario)


def test_what_is_ended_before_it_has_started_never_counts_as_ready() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        health.begin(is_started=False)
        health.expect_end()
        await asyncio.sleep(0.1)
        assert (health.is_ready, patient.asked, patient.heard) == (False, [], [])

    play([ProbeKind.STARTUP], scenario)


def test_who_is_given_up_is_as_ready_as_it_says_until_it_has_ended() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        patient.codes["liveness"] = 1
        health.begin(is_started=True)
        await until(lambda: health.is_ready and len(patient.heard) == 2)
        assert sorted(patient.heard) == ["liveness failed: `liveness` exited with 1", "ready"]
        patient.codes["readiness"] = 1
        await until(lambda: not health.is_ready)

    play([ProbeKind.LIVENESS, ProbeKind.READINESS], scenario)


def test_a_failed_liveness_probe_is_told_once() -> None:
    async def scenario(health: Health, patient: Patient) -> None:
        patient.codes["liveness"] = 7
        health.begin(is_started=True)
        await until(lambda: bool(patient.heard))
        asked = len(patient.asked)
        await asyncio.sleep(1.2)
        assert patient.heard == ["liveness failed: `liveness` exited with 7"]
        assert len(patient.asked) == asked

    play([ProbeKind.LIVENESS], scenario)
