"""What the operator asked for, and where the answers go."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Protocol

from jettison.engine.drain.rules import DrainRules
from jettison.runtimes.kube.client import CHUNK
from jettison.values import frozen


class DryRun(StrEnum):
    """Whether anything is really done: yes; no, without asking the server; no, but the server says whether it would."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"

    @property
    def suffix(self) -> str:
        """What kubectl appends to a line about something that was not done."""
        return {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}[self]


@frozen
class EvictionSettings:
    """How single pods are made to go. None seconds of grace: the pod's own; 0 ns: no deadline."""

    grace_seconds: int | None = None
    timeout_ns: int = 0
    dry_run: DryRun = DryRun.NONE
    skip_wait_seconds: int = 0
    # How long to wait after a refusal; None: a refusal is final.
    retry_seconds: float | None = 5.0
    waits: bool = True


@frozen
class DrainSettings:
    """How nodes are emptied."""

    rules: DrainRules = field(default_factory=DrainRules)
    eviction: EvictionSettings = field(default_factory=EvictionSettings)
    pod_selector: str = ""
    deletes: bool = False
    chunk: int = CHUNK


class Voice(Protocol):
    """Where lines go. Results and complaints are apart, as they are in kubectl."""

    def say(self, text: str) -> None:
        """A line of the answer."""

    def complain(self, text: str) -> None:
        """A line about what went wrong."""

    def report(self, text: str) -> None:
        """A line of progress; kubectl has none."""
