"""What an attack tried, what it saw and what broke: one row of the summary of `tests/soak.py`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

MOST_KEPT = 20
"""Complaints of one attack that are kept word for word; the rest is counted."""


@dataclass
class Tally:
    """One attack. `seen` says that it met what it was meant to meet: kills without evictions prove nothing."""

    name: str
    tries: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    complaints: list[str] = field(default_factory=list)

    def check(self, is_right: object, complaint: str) -> None:
        """A promise, kept or broken."""
        if not is_right:
            self.broken += 1
            if len(self.complaints) < MOST_KEPT:
                self.complaints.append(complaint)

    def row(self) -> str:
        """For the summary."""
        seen = ", ".join(f"{count} {what}" for what, count in sorted(self.seen.items()))
        return f"{self.name:<22} {self.tries:>7} {self.broken:>7}  {seen}"

    def verify(self) -> None:
        """For tests: nothing may be broken."""
        assert not self.broken, "\n".join([self.row(), *self.complaints])
