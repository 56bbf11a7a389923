"""Tokens of service accounts: issued for pods, bound to them, and known again.

A token is a JSON Web Token with the claims that Kubernetes writes, so that programs which look into it find what they
look for. It is signed with a key that only this server has (HMAC, HS256): `cryptography`, which other signatures would
need, is 12 MB for a server that checks its own tokens alone. A token ends with its time, with its account and with the
pod that it is bound to.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from jettison.apiserver.access.node_restriction import StoredObjects
from jettison.apiserver.objects.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from jettison.apiserver.storage.private_files import read_private, write_private
from jettison.clock import Clock
from jettison.errors import InputError
from jettison.manifests.times import parse_time
from jettison.values import frozen

Json = Mapping[str, Any]

AUDIENCE: Final = "https://kubernetes.default.svc"
"""Both the issuer's name and the audience of tokens that are meant for this server; Kubernetes' usual one."""

_SECOND_NS: Final = 10**9
_KEY_BYTES: Final = 32
_LONGEST: Final = 16 * 1024
# What was deleted so recently still counts, as in Kubernetes.
_LEEWAY_NS: Final = 60 * _SECOND_NS

_EXTRA: Final = "authentication.kubernetes.io/"
_BOUND: Final[Mapping[str, Resource]] = {"pod": PODS, "secret": SECRETS, "node": NODES}


@frozen
class Holder:
    """The account that a token stands for."""

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def ensure_key(path: Path) -> bytes:
    """The key of this cluster, made at its first start. Raises InputError for a file that holds none."""
    content = read_private(path)
    if content is None:
        content = secrets.token_bytes(_KEY_BYTES)
        write_private(path, content)
    if len(content) != _KEY_BYTES:
        raise InputError(f"`{path}` has {len(content)} bytes, expected a key of {_KEY_BYTES}")
    return content


class AccountTokens:
    """Issues and checks; asks the store whether what a token is bound to is still there."""

    def __init__(self, key: bytes, objects: StoredObjects, clock: Clock) -> None:
        self._key = key
        self._objects = objects
        self._clock = clock

    def issue(self, account: Json, audiences: Sequence[str], seconds: int, bound: Mapping[str, Json]) -> str:
        """A token for the account. `bound` has the metadata of what it is bound to, by kind in small letters."""
        now = self._clock.now_ns() // _SECOND_NS
        metadata = account["metadata"]
        about = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
            **{kind: {key: each[key] for key in ("name", "uid") if each.get(key)} for kind, each in bound.items()},
        }
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": AUDIENCE,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": about,
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        head = _text(msgspec.json.encode({"alg": "HS256", "typ": "JWT"}))
        body = f"{head}.{_text(msgspec.json.encode(claims))}"
        return f"{body}.{self._signature(body)}"

    def holder(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> Holder | None:
        """The account, if the token is one of ours, for one of these audiences, and still counts."""
        body, _, signature = token.rpartition(".")
        if len(token) > _LONGEST or not body or not token.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(body)):
            return None
        # From here on it is a text of our own.
        claims = _claims(body)
        now_ns = self._clock.now_ns()
        is_current = claims["nbf"] * _SECOND_NS <= now_ns + _LEEWAY_NS and now_ns < claims["exp"] * _SECOND_NS
        if not is_current or not set(audiences) & set(claims["aud"]):
            return None
        about = claims["kubernetes.io"]
        account = about["serviceaccount"]
        if not self._is_there(SERVICE_ACCOUNTS, about["namespace"], account, now_ns):
            return None
        for kind, resource in _BOUND.items():
            # The node of a pod is only told of: the pod's end is what counts.
            is_told = kind == "node" and "pod" in about
            namespace = about["namespace"] if resource.is_namespaced else ""
            if kind in about and not is_told and not self._is_there(resource, namespace, about[kind], now_ns):
                return None
        extra = _extra(claims["jti"], about)
        return Holder(about["namespace"], account["name"], account["uid"], tuple(claims["aud"]), extra)

    def _is_there(self, resource: Resource, namespace: str, reference: Json, now_ns: int) -> bool:
        found = self._objects.get(resource, namespace, reference["name"])
        if found is None or found.metadata["uid"] != reference.get("uid"):
            return False
        deleted = found.metadata.get("deletionTimestamp")
        return deleted is None or parse_time(deleted) >= now_ns - _LEEWAY_NS

    def _signature(self, body: str) -> str:
        return _text(hmac.digest(self._key, body.encode("ascii"), hashlib.sha256))


def _claims(body: str) -> dict[str, Any]:
    data = body.rpartition(".")[2]
    claims: dict[str, Any] = msgspec.json.decode(base64.urlsafe_b64decode(data + "=" * (-len(data) % 4)))
    return claims


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _extra(identity: str, about: Json) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = {f"{_EXTRA}credential-id": f"JTI={identity}"}
    for kind in ("node", "pod"):
        for key in ("name", "uid"):
            if value := about.get(kind, {}).get(key):
                found[f"{_EXTRA}{kind}-{key}"] = value
    return tuple((key, (value,)) for key, value in found.items())
