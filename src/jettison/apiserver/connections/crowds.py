"""How many connections there are, whose they are, and which one goes when there are too many.

Until a request has shown a token, a connection is a stranger's. Strangers have a share of their own, and a new one is
always let in: the oldest of the address that has most of them must go for it. So a flood of them drives out itself,
while a probe of `/healthz` or an administrator's first request, which take milliseconds, come through. Known users
are counted by name; one that has too many is refused, and its idle connections make room first. Administrators have a
reserve that no other user can take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MOST_CONNECTIONS = 4096
"""Each costs a file descriptor and, with TLS, some 60 kB."""

_FILES_KEPT = 128
"""Descriptors that connections never get, nor a quarter of all: the store needs some, and nodes of the same process."""


class Connection(Protocol):
    """What is counted here."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered on it."""

    def drop(self) -> None:
        """Close it at once."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Of all connections: for strangers, for all users but administrators together, and for one such user."""

    all: int = MOST_CONNECTIONS

    @property
    def strangers(self) -> int:
        """768."""
        return max(self.all * 3 // 16, 1)

    @property
    def users(self) -> int:
        """3,072, so that 256 are left for administrators whatever the others do."""
        return max(self.all * 12 // 16, 1)

    @property
    def one_user(self) -> int:
        """2,304: enough for 2,000 watches, and not all."""
        return max(self.all * 9 // 16, 1)


def shares_within(files: int) -> Shares:
    """What a limit on open files leaves for connections."""
    return Shares(max(min(MOST_CONNECTIONS, files - max(_FILES_KEPT, files // 4)), 16))


class Crowds:
    """All connections of a server. Oldest first, in every group."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares = shares or Shares()
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._users: dict[str, dict[Connection, None]] = {}
        self._place: dict[Connection, tuple[dict[str, dict[Connection, None]], str]] = {}
        self._administrators: set[str] = set()
        self._stranger_count = 0

    def __len__(self) -> int:
        return len(self._place)

    def enter(self, connection: Connection, address: str) -> None:
        """A stranger from this address."""
        if self._stranger_count >= self._shares.strangers:
            self._drop_stranger()
        self._put(connection, self._strangers, address)

    def leave(self, connection: Connection) -> None:
        """It is closed."""
        place = self._place.pop(connection, None)
        if place is None:
            return
        groups, name = place
        self._stranger_count -= groups is self._strangers
        group = groups[name]
        del group[connection]
        if not group:
            del groups[name]

    def recognise(self, connection: Connection, user: str, *, is_administrator: bool) -> bool:
        """Count it as the user's from now on; False when the user has too many, and none of them is idle."""
        place = self._place.get(connection)
        if place is None or (place[0] is self._users and place[1] == user):
            return True
        if is_administrator:
            self._administrators.add(user)
        if not self._has_room(user, is_administrator=is_administrator) and not self._drop_idle(user):
            return False
        self.leave(connection)
        self._put(connection, self._users, user)
        return True

    def drop_silent(self) -> None:
        """Close all that is a stranger's and idle: the server stops."""
        for connection in [each for group in self._strangers.values() for each in group if each.is_idle]:
            self._drop(connection)

    def relieve(self) -> None:
        """There are no descriptors left: let go of a stranger."""
        self._drop_stranger()

    def _put(self, connection: Connection, groups: dict[str, dict[Connection, None]], name: str) -> None:
        groups.setdefault(name, {})[connection] = None
        self._place[connection] = (groups, name)
        self._stranger_count += groups is self._strangers

    def _has_room(self, user: str, *, is_administrator: bool) -> bool:
        named = len(self._place) - self._stranger_count
        if is_administrator:
            return named < self._shares.all - self._shares.strangers
        administrators = sum(len(self._users.get(name, ())) for name in self._administrators)
        own = len(self._users.get(user, ()))
        return own < self._shares.one_user and named - administrators < self._shares.users

    def _drop_idle(self, user: str) -> bool:
        return self._drop_first_idle(self._users.get(user, {}))

    def _drop_stranger(self) -> None:
        crowded = max(self._strangers.values(), key=len, default=None)
        if crowded is not None and not self._drop_first_idle(crowded):
            self._drop(next(iter(crowded)))

    def _drop_first_idle(self, group: dict[Connection, None]) -> bool:
        oldest = next((each for each in group if each.is_idle), None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, connection: Connection) -> None:
        self.leave(connection)
        connection.drop()
