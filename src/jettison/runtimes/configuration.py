"""What a hosting runtime asks of the keeper of ConfigMaps, Secrets and tokens, as values and one protocol.

An API keeps them, or the manifest directories of a bare host. A runtime asks when it needs one and keeps no copy: what
it was told goes into the files of a volume or into the environment of a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from jettison.engine.numbers.quantity import Quantity
from jettison.errors import ContentError
from jettison.runtimes.kept_text import KeptText
from jettison.values import frozen


class ObjectKind(StrEnum):
    """By the names that Kubernetes' messages have for them."""

    CONFIG_MAP = "configmap"
    SECRET = "secret"  # noqa: S105  a kind


@frozen
class TokenOrder:
    """A token of a service account, bound to a pod. Without an audience it is for the API itself."""

    namespace: str
    account: str
    pod: str
    uid: str
    audience: str
    seconds: int


@frozen
class IssuedToken:
    """A token, and when it was asked for and ends, in nanoseconds since 1970."""

    text: str = field(repr=False)
    issued_ns: int
    expires_ns: int


class ObjectKeeper(Protocol):
    """Whatever knows these objects. Methods raise ContentError where they cannot be asked for now."""

    async def read(self, kind: ObjectKind, namespace: str, name: str) -> KeptText | None:
        """One object, to be closed; None where there is none of that name."""

    async def token(self, order: TokenOrder) -> IssuedToken:
        """A new token."""


API_ORIGIN = "api"
"""The origin of pods that an API has bound to the node; all others are from manifests."""


class NoKeeper:
    """In the place of a keeper that is not there, or not yet."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def read(self, kind: ObjectKind, namespace: str, name: str) -> KeptText | None:
        """Cannot be asked for."""
        raise ContentError(f'{kind} "{name}" of namespace {namespace} cannot be asked for: {self._why}')

    async def token(self, order: TokenOrder) -> IssuedToken:
        """Cannot be asked for."""
        raise ContentError(f'a token of service account "{order.account}" cannot be asked for: {self._why}')


@dataclass(slots=True)
class NodeConfiguration:
    """What the parts of a node tell its runtime as they come to know it: what keeps objects, and where the node is."""

    api: ObjectKeeper = field(default_factory=lambda: NoKeeper("the node has not reached its API yet"))
    files: ObjectKeeper = field(default_factory=lambda: NoKeeper("there are no manifest directories"))
    addresses: Sequence[str] = ("127.0.0.1",)
    # Where this node reaches its API: programs in its pods are told of it.
    server: tuple[str, int] | None = None
    # What pods may use in all: the limit of a container that has none.
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    # Seconds between two looks at what volumes show.
    period: float = 60.0

    def keeper(self, origin: str) -> ObjectKeeper:
        """The one to be asked about a pod that came from there."""
        return self.api if origin == API_ORIGIN else self.files
