"""Which user sends a request: that of its token, or the one that an administrator impersonates.

A request without credentials is the user `system:anonymous`, as in Kubernetes, so it is told with 403 what it may not
do; only health and version are open to it.

Bearer tokens are listed in a file, with their users and roles:

    {"tokens": [{"token": "…", "user": "admin", "role": "admin"}, …]}

It holds the tokens themselves and not their hashes, because the kubeconfigs beside it are written from it at every
start; both are mode 0600. An operator may add lines; they count from the next start on.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import yaml

from jettison.apiserver.access.account_tokens import AUDIENCE, AccountTokens, Holder
from jettison.apiserver.access.roles import ROLES, Access
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.validation.metadata import label_name, subdomain_name
from jettison.apiserver.storage.private_files import read_private, write_private
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import decode
from jettison.values import frozen

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

_TOKEN_BYTES = 32
# No blank: it would end the token in the header that carries it.
_TOKEN = re.compile(r"[!-~]+")
# Long enough that guessing is hopeless even at the rate of a loopback interface; ours have 43 characters.
_SHORTEST = 16

_CLUSTER = "jettison"


@frozen
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

    def __init__(self, entries: Iterable[TokenEntry], accounts: AccountTokens) -> None:
        self.accounts = accounts
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
        found = self.review(token, (AUDIENCE,))
        return None if found is None else found[0]

    def review(self, token: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]] | None:
        """The user behind a token that is meant for one of these audiences, and those for which it is."""
        user = self._users.get(_digest(token))
        if user is not None:
            return (user, (AUDIENCE,)) if AUDIENCE in audiences else None
        holder = self.accounts.holder(token, audiences)
        if holder is None:
            return None
        return self._bearer(holder), tuple(each for each in audiences if each in holder.audiences)

    def _bearer(self, holder: Holder) -> User:
        name = f"{_ACCOUNT_PREFIX}{holder.namespace}:{holder.name}"
        groups = (_ACCOUNTS, f"{_ACCOUNTS}:{holder.namespace}", AUTHENTICATED)
        return self.subject(User(name, groups, "", holder.uid, holder.extra))

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
    asked = [each for each in headers if each[0].startswith(b"impersonate-")]
    if not asked:
        return None
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for key, content in asked:
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


class TokenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    token: str
    user: str
    role: str
    groups: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[TokenEntry, ...] = ()


_DECODER = msgspec.json.Decoder(_File)


def ensure_tokens(path: Path, wanted: Mapping[str, str]) -> tuple[TokenEntry, ...]:
    """All entries of the file, after a new token was added for each user of `wanted` (user: role) without one."""
    found = _read(path)
    known = {entry.user for entry in found}
    made = tuple(
        TokenEntry(secrets.token_urlsafe(_TOKEN_BYTES), user, role)
        for user, role in wanted.items()
        if user not in known
    )
    if made:
        write_private(path, msgspec.json.format(msgspec.json.encode(_File((*found, *made))), indent=2) + b"\n")
    return (*found, *made)


def _read(path: Path) -> tuple[TokenEntry, ...]:
    content = read_private(path)
    if content is None:
        return ()
    try:
        entries = decode(_DECODER, content, "JSON").tokens
    except ManifestError as error:
        raise InputError(f"`{path}` is not a file of tokens: {error}") from error
    _check(path, entries)
    return entries


def _check(path: Path, entries: Iterable[TokenEntry]) -> None:
    seen = set()
    for entry in entries:
        if entry.role not in ROLES:
            raise InputError(f"`{path}`: user `{entry.user}` has the role `{entry.role}`, expected {', '.join(ROLES)}")
        if not entry.user:
            raise InputError(f"`{path}`: a token has no user")
        if len(entry.token) < _SHORTEST or not _TOKEN.fullmatch(entry.token):
            raise InputError(f"`{path}`: the token of `{entry.user}` must be {_SHORTEST} printable characters or more")
        if entry.token in seen:
            raise InputError(f"`{path}`: the token of `{entry.user}` is that of another user, too")
        seen.add(entry.token)


def kubeconfig(url: str, authority_pem: bytes, user: str, token: str) -> dict[str, Any]:
    """A kubeconfig, one per user: all that kubectl and every client library need.

    The certificate is embedded, so that the file works wherever it is copied to.
    """
    authority = base64.b64encode(authority_pem).decode("ascii")
    context = f"{user}@{_CLUSTER}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CLUSTER, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": _CLUSTER, "user": user}}],
        "current-context": context,
    }


def write_kubeconfig(path: Path, url: str, authority_pem: bytes, user: str, token: str) -> None:
    """Mode 0600, because the token is in it; kubectl warns about anything wider."""
    document = kubeconfig(url, authority_pem, user, token)
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode(), is_remade=True)
