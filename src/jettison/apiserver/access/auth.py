"""Which user sends a request: that of its token, or the one that an administrator impersonates.

A request without credentials is the user `system:anonymous`, as in Kubernetes, so it is told with 403 what it may not
do; only health and version are open to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from jettison.apiserver.access.roles import ROLES, Access
from jettison.apiserver.access.tokens import TokenEntry
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.validation.names import label_name, subdomain_name

NODE_PREFIX: Final = "system:node:"
AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"
_MASTERS: Final = "system:masters"
_NODES: Final = "system:nodes"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_ACCOUNTS: Final = "system:serviceaccounts"
_ROLE_GROUPS: Final = {role: {"admin": _MASTERS, "node": _NODES}.get(role, f"jettison:{role}s") for role in ROLES}
_IDENTITY_GROUP: Final = "authentication.k8s.io"

_AS_USER: Final = b"impersonate-user"
_AS_UID: Final = b"impersonate-uid"
_AS_GROUP: Final = b"impersonate-group"
_AS_EXTRA: Final = b"impersonate-extra-"


@dataclass(frozen=True, slots=True)
class User:
    """A user that the server knows, or `ANONYMOUS`; without a `role` it may do almost nothing."""

    name: str
    groups: tuple[str, ...]
    role: str
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def node(self) -> str:
        """The node that this user is; empty for all others."""
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


def impersonated(headers: Iterable[tuple[bytes, bytes]]) -> User | None:
    """The user that a request asks to be, as `kubectl --as` sends it; None if it asks nothing of the kind.

    It has no role yet: that is for `Authenticator.subject`, after each of `impersonation` was allowed.
    """
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for key, content in headers:
        if not key.startswith(b"impersonate-"):
            continue
        text = content.decode("utf-8", "replace")
        if key == _AS_USER:
            name = name or text
        elif key == _AS_UID:
            uid = uid or text
        elif key == _AS_GROUP:
            groups.append(text)
        elif key.startswith(_AS_EXTRA):
            extra.setdefault(_extra_key(key), []).append(text)
    wanted = User(name, tuple(groups), "", uid, tuple((key, tuple(values)) for key, values in extra.items()))
    if not name:
        if groups or extra or uid:
            raise bad_request(f"requested [{' '.join(_references(wanted))}] without impersonating a user")
        return None
    return wanted


def with_own_groups(wanted: User) -> User:
    """With the groups that Kubernetes adds: a service account's, and `system:authenticated` or its opposite."""
    groups = list(wanted.groups)
    account = _account(wanted.name)
    if account and not groups:
        groups = [_ACCOUNTS, f"{_ACCOUNTS}:{account[0]}"]
    if wanted.name == ANONYMOUS.name:
        if _UNAUTHENTICATED not in groups:
            groups.append(_UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and _UNAUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return User(wanted.name, tuple(groups), "", wanted.uid, wanted.extra)


def impersonation(wanted: User) -> Iterator[Access]:
    """What a user must be allowed to do before it may impersonate this one."""
    if account := _account(wanted.name):
        yield Access("impersonate", "", "serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Access("impersonate", "", "users", name=wanted.name)
    for group in wanted.groups:
        yield Access("impersonate", "", "groups", name=group)
    for key, values in wanted.extra:
        for value in values:
            yield Access("impersonate", _IDENTITY_GROUP, "userextras", key, name=value)
    if wanted.uid:
        yield Access("impersonate", _IDENTITY_GROUP, "uids", name=wanted.uid)


def _extra_key(header: bytes) -> str:
    return unquote(header.removeprefix(_AS_EXTRA).decode("ascii", "replace").lower())


def _account(name: str) -> Sequence[str]:
    """The namespace and name of a service account; empty if this is the name of none."""
    parts = name.removeprefix(_ACCOUNT_PREFIX).split(":")
    if not name.startswith(_ACCOUNT_PREFIX) or len(parts) != 2:
        return ()
    return () if list(label_name(parts[0])) or list(subdomain_name(parts[1])) else parts


def _references(wanted: User) -> Iterator[str]:
    """As Go prints the references that Kubernetes makes of these headers."""
    yield from (f"{{Group  {group}    }}" for group in wanted.groups)
    for key, values in wanted.extra:
        yield from (f"{{UserExtra  {value}  {_IDENTITY_GROUP}/v1  {key}}}" for value in values)
    if wanted.uid:
        yield f"{{UID  {wanted.uid}  {_IDENTITY_GROUP}/v1  }}"
