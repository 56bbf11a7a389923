"""How many connections there are, by user, and which one is closed when there are too many.

Until a request has shown a token, a connection is unauthenticated. Those have a share of their own, and a new one is
always accepted: the oldest of the address that has most of them is closed for it. So a flood displaces itself, while a
probe of `/healthz` or an administrator's first request, which take milliseconds, come through. Authenticated users are
counted by name; a user that has too many is refused, after its idle connections were closed. Administrators have a
reserve that no other user can take.
"""

from __future__ import annotations

from typing import Protocol

from jettison.values import frozen

MOST_CONNECTIONS = 4096
"""Each costs a file descriptor and, with TLS, some 60 kB."""

_FILES_KEPT = 128
"""Descriptors that connections never get, nor a quarter of all: the store needs some, and nodes of the same process."""


class Connection(Protocol):
    """What is counted."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered on it."""

    def drop(self) -> None:
        """Close it at once."""


@frozen
class Shares:
    """Of all connections: for unauthenticated ones, for all users but administrators together, for one such user."""

    all: int = MOST_CONNECTIONS

    @property
    def unauthenticated(self) -> int:
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


class ConnectionQuotas:
    """All connections of a server. Oldest first, in every group."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares = shares or Shares()
        self._unauthenticated: dict[str, dict[Connection, None]] = {}
        self._users: dict[str, dict[Connection, None]] = {}
        self._place: dict[Connection, tuple[dict[str, dict[Connection, None]], str]] = {}
        self._administrators: set[str] = set()
        self._unauthenticated_count = 0

    def __len__(self) -> int:
        return len(self._place)

    def add(self, connection: Connection, address: str) -> None:
        """Count a new, unauthenticated connection from this address."""
        if self._unauthenticated_count >= self._shares.unauthenticated:
            self._drop_unauthenticated()
        self._put(connection, self._unauthenticated, address)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        place = self._place.pop(connection, None)
        if place is None:
            return
        groups, name = place
        self._unauthenticated_count -= groups is self._unauthenticated
        group = groups[name]
        del group[connection]
        if not group:
            del groups[name]

    def assign(self, connection: Connection, user: str, *, is_administrator: bool) -> bool:
        """Count it as the user's from now on; False when the user has too many, and none of them is idle."""
        place = self._place.get(connection)
        if place is None or (place[0] is self._users and place[1] == user):
            return True
        if is_administrator:
            self._administrators.add(user)
        if not self._has_room(user, is_administrator=is_administrator) and not self._drop_idle(user):
            return False
        self.remove(connection)
        self._put(connection, self._users, user)
        return True

    def drop_unused(self) -> None:
        """Close all that are unauthenticated and idle: the server stops."""
        for connection in [each for group in self._unauthenticated.values() for each in group if each.is_idle]:
            self._drop(connection)

    def free_descriptor(self) -> None:
        """No descriptors are left: close an unauthenticated connection."""
        self._drop_unauthenticated()

    def _put(self, connection: Connection, groups: dict[str, dict[Connection, None]], name: str) -> None:
        groups.setdefault(name, {})[connection] = None
        self._place[connection] = (groups, name)
        self._unauthenticated_count += groups is self._unauthenticated

    def _has_room(self, user: str, *, is_administrator: bool) -> bool:
        named = len(self._place) - self._unauthenticated_count
        if is_administrator:
            return named < self._shares.all - self._shares.unauthenticated
        administrators = sum(len(self._users.get(name, ())) for name in self._administrators)
        own = len(self._users.get(user, ()))
        return own < self._shares.one_user and named - administrators < self._shares.users

    def _drop_idle(self, user: str) -> bool:
        return self._drop_first_idle(self._users.get(user, {}))

    def _drop_unauthenticated(self) -> None:
        largest = max(self._unauthenticated.values(), key=len, default=None)
        if largest is not None and not self._drop_first_idle(largest):
            self._drop(next(iter(largest)))

    def _drop_first_idle(self, group: dict[Connection, None]) -> bool:
        oldest = next((each for each in group if each.is_idle), None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.drop()
