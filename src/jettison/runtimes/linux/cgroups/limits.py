"""What a cgroup may use, in terms that both cgroup versions can express."""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = -1

# Below this the kernel answers EINVAL; a container that asks for 5m gets 10m instead of an error.
_LEAST_QUOTA_US = 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """None leaves a limit as it is, `UNLIMITED` lifts it."""

    memory: int | None = None
    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int = 100_000
    pids: int | None = None
    # Whether the kernel kills all processes here when it has to kill for want of memory. Version 1 cannot.
    is_killed_as_one: bool | None = None

    @property
    def effective_quota_us(self) -> int:
        """The quota as the kernel will take it."""
        if self.cpu_quota_us is None or self.cpu_quota_us == UNLIMITED:
            return UNLIMITED
        return max(self.cpu_quota_us, _LEAST_QUOTA_US)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value for one control file of one controller."""

    controller: str
    file: str
    value: bytes
