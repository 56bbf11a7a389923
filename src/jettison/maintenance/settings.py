"""What the operator asked for, where the answers go, and errors of an API in kubectl's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from jettison.engine.drain.filters import DrainRules
from jettison.errors import ApiError, JettisonError
from jettison.runtimes.kube.client import CHUNK


class DryRun(StrEnum):
    """Whether anything is really done: yes; no, without asking the server; no, but the server says whether it would."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"

    @property
    def suffix(self) -> str:
        """What kubectl appends to a line about something that was not done."""
        return {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}[self]


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    """How single pods are made to go. None seconds of grace: the pod's own; 0 ns: no deadline."""

    grace_seconds: int | None = None
    timeout_ns: int = 0
    dry_run: DryRun = DryRun.NONE
    skip_wait_seconds: int = 0
    # How long to wait after a refusal; None: a refusal is final.
    retry_seconds: float | None = 5.0
    waits: bool = True


@dataclass(frozen=True, slots=True)
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


def server_text(error: JettisonError) -> str:
    """As the last line of a failed command. Errors that are not the server's speak for themselves."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.reason == "Unauthorized":
        return f"error: You must be logged in to the server ({error.message})"
    return f"Error from server ({error.reason}): {error.message}" if error.reason else f"Error from server: {error}"


def causes(error: ApiError) -> str:
    """What kubectl hides: which budget refuses, and why. The message alone where there is nothing more."""
    listed = (error.details or {}).get("causes")
    texts = [
        each["message"]
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("message"), str)
    ]
    return "; ".join(texts) or error.message


def has_cause(error: ApiError, reason: str) -> bool:
    """Does the error give this reason among its causes?"""
    listed = (error.details or {}).get("causes")
    return isinstance(listed, list) and any(isinstance(each, dict) and each.get("reason") == reason for each in listed)
