"""Who is asking: the user behind a token.

A request without credentials is the user `system:anonymous`, as in Kubernetes, so it is told with 403 what it may not
do; only health and version are open to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jettison.apiserver.roles import ROLES
from jettison.apiserver.tokens import TokenEntry

NODE_PREFIX: Final = "system:node:"
AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"
_MASTERS: Final = "system:masters"
_NODES: Final = "system:nodes"
_ROLE_GROUPS: Final = {role: {"admin": _MASTERS, "node": _NODES}.get(role, f"jettison:{role}s") for role in ROLES}


@dataclass(frozen=True, slots=True)
class User:
    """A user that the server knows, or `ANONYMOUS`; without a `role` it may do next to nothing."""

    name: str
    groups: tuple[str, ...]
    role: str
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def node(self) -> str:
        """The node this user speaks for; empty for all others."""
        is_node = self.role == "node" and self.name.startswith(NODE_PREFIX)
        return self.name.removeprefix(NODE_PREFIX) if is_node else ""

    @property
    def is_known(self) -> bool:
        """Whether it is anything but anonymous."""
        return bool(self.role) or AUTHENTICATED in self.groups


ANONYMOUS: Final = User("system:anonymous", (_UNAUTHENTICATED,), "")


class Authenticator:
    """The known tokens, by their hashes: a look-up by a secret would tell by its time how much of a guess was right."""

    def __init__(self, entries: Iterable[TokenEntry]) -> None:
        self._users: dict[bytes, User] = {}
        self._roles: dict[str, str] = {}
        for entry in entries:
            self._users[_digest(entry.token)] = _user(entry)
            self._roles.setdefault(entry.user, entry.role)

    def authenticate(self, authorization: str | None) -> User | None:
        """The user behind an Authorization header; None when it carries a token that is unknown.

        Anything but a bearer token counts as no credentials at all, as it does in Kubernetes.
        """
        scheme, _, rest = (authorization or "").strip().partition(" ")
        token = rest.partition(" ")[0]
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        return self._users.get(_digest(token))

    def subject(self, wanted: User) -> User:
        """The user of that name and those groups, with the role that either gives it.

        A role is bound to the name that has a token for it, and to the groups of that role, as bindings of RBAC would
        be; `system:masters` is everything.
        """
        return User(wanted.name, wanted.groups, self._role(wanted), wanted.uid, wanted.extra)

    def _role(self, user: User) -> str:
        if _MASTERS in user.groups:
            return "admin"
        if user.name in self._roles:
            return self._roles[user.name]
        is_node = user.name.startswith(NODE_PREFIX)
        return next(
            (role for role, group in _ROLE_GROUPS.items() if group in user.groups and (role != "node" or is_node)), ""
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _user(entry: TokenEntry) -> User:
    return User(entry.user, (_ROLE_GROUPS[entry.role], *entry.groups, AUTHENTICATED), entry.role)
