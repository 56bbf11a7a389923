"""What a pod's volumes show and its variables are, from ConfigMaps, Secrets, tokens and the pod itself.

Asked for when it is needed. Nothing is kept but tokens, until they are to be renewed, and digests of what was written.
Here are orders made (`content_orders`); an object is taken apart in a process of its own unless it is small: the files
of a volume may have 4 MiB, and neither they nor their names are ever the agent's.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from jettison.clock import Clock
from jettison.errors import ContentError, ManifestError
from jettison.manifests.pod_fields import PodPlace, ResourceField, field_text, resource_text
from jettison.runtimes.configuration import (
    API_ORIGIN,
    IssuedToken,
    NodeConfiguration,
    ObjectKeeper,
    ObjectKind,
    TokenOrder,
)
from jettison.runtimes.host.specs.content import (
    AllKeys,
    ContentSpec,
    FieldRef,
    FromObject,
    FromPod,
    FromToken,
    KeyRef,
    ObjectRef,
    Reference,
)
from jettison.runtimes.host.specs.texts import Given
from jettison.runtimes.host.volumes.content_orders import (
    DIGEST_SIZE,
    MOST_BYTES,
    MOST_FILES,
    TOO_MUCH,
    AllVariables,
    ChosenFile,
    FilesOrder,
    GivenFile,
    KeyVariable,
    ObjectFiles,
    Variable,
    VariablesOrder,
    show_files,
    show_files_aside,
    variables_aside,
    variables_of,
)
from jettison.runtimes.kept_text import FIELD_WEIGHT, KeptObject, KeptText
from jettison.values import frozen

SMALL = 32 * 1024
"""The weight of objects that are taken apart at once: 0.3 ms, whatever is in them."""

_TOKEN_MODE = 0o600
_DAY_NS = 24 * 3600 * 10**9
# At four fifths of its life, as a kubelet; nothing waits for it, so it need not be random.
_RENEWED_AT = 0.8


@frozen
class PodIdentity:
    """As much of a pod as its files and variables depend on."""

    namespace: str
    name: str
    uid: str
    account: str
    # Where it came from, and so what keeps the objects that it refers to.
    origin: str
    document: Mapping[str, Any]
    # The user that all of its containers run as, and the pod's fsGroup.
    user: int | None = None
    group: int | None = None


Waiting = Callable[..., Awaitable[Any]]
Gathered = dict[ObjectRef, KeptText | None]


class Contents:
    """Of one pod. It remembers what tokens it was given, and what it wrote as a digest."""

    __slots__ = ("_addresses", "_clock", "_configuration", "_digests", "_node", "_pod", "_tokens", "_wait_for")

    def __init__(
        self,
        pod: PodIdentity,
        configuration: NodeConfiguration,
        node: str,
        clock: Clock,
        addresses: Callable[[], Sequence[str]] = tuple,
        wait_for: Waiting = asyncio.to_thread,
    ) -> None:
        """`addresses` are the pod's, where it has a network of its own; `wait_for` waits in a thread."""
        self._wait_for = wait_for
        self._addresses = addresses
        self._pod = pod
        self._configuration = configuration
        self._node = node
        self._clock = clock
        self._tokens: dict[FromToken, IssuedToken] = {}
        # Of each volume: of what was asked for, and of the files that were written.
        self._digests: dict[str, tuple[bytes, bytes]] = {}

    def know(self, document: Mapping[str, Any]) -> None:
        """Containers were added to the pod, which may ask for their own resources."""
        self._pod = replace(self._pod, document=document)

    async def fill(self, volume: str, spec: ContentSpec, directory: Path, group: int | None) -> None:
        """Have the files of a volume written as they should be now, in a thread or a process of its own.

        Raises ContentError with what is missing, and MountError.
        """
        tokens = {each: await self._token(each) for each in spec.sources if isinstance(each, FromToken)}
        async with self._gathered(each.object for each in spec.sources if isinstance(each, FromObject)) as objects:
            places = {each: at for at, each in enumerate(objects)}
            sources = tuple(self._source(each, spec, places, tokens) for each in spec.sources)
            order = FilesOrder(sources, str(directory), group)
            asked = _digest(order, objects)
            asked_before, written = self._digests.get(volume, (b"", b""))
            if asked == asked_before:
                return
            if _is_small(objects):
                written = await self._wait_for(show_files, order, written, _taken_apart(objects))
            else:
                written = await self._wait_for(show_files_aside, order, written, list(objects.values()))
        self._digests[volume] = asked, written

    @asynccontextmanager
    async def _gathered(self, references: Iterable[ObjectRef]) -> AsyncIterator[Gathered]:
        """Each object once, not taken apart. Raises ContentError for one that is missing."""
        found: Gathered = {}
        weight = 0
        try:
            for each in references:
                if each not in found:
                    kept = found[each] = await self._object(each)
                    weight += 0 if kept is None else kept.weight
                    # Base64 and keys come on top of the values.
                    if weight > 2 * MOST_BYTES + MOST_FILES * FIELD_WEIGHT:
                        raise ContentError(TOO_MUCH)
            yield found
        finally:
            for kept in found.values():
                if kept is not None:
                    kept.close()

    def _source(
        self,
        source: FromObject | FromPod | FromToken,
        spec: ContentSpec,
        places: Mapping[ObjectRef, int],
        tokens: Mapping[FromToken, IssuedToken],
    ) -> GivenFile | ObjectFiles:
        if isinstance(source, FromPod):
            text = self._own_value(source.value)
            return GivenFile(str(source.path), text.encode(errors=_ESCAPED), _mode(source.mode, spec))
        if isinstance(source, FromToken):
            is_shared = self._pod.user is None and self._pod.group is None
            mode = spec.mode if is_shared else _TOKEN_MODE
            return GivenFile(str(source.path), tokens[source].text.encode(), mode, self._pod.user)
        chosen = (ChosenFile(each.key, str(each.path), _mode(each.mode, spec)) for each in source.files)
        missing = "" if source.object.is_optional else _NO_KEY[source.object.kind]
        return ObjectFiles(places[source.object], tuple(chosen), spec.mode, missing)

    def _own_value(self, value: FieldRef | ResourceField) -> str:
        known = self._configuration
        around = PodPlace(self._node, known.addresses, self._addresses() or known.addresses, known.allocatable)
        try:
            if isinstance(value, FieldRef):
                return field_text(self._pod.document, value.path, around)
            return resource_text(self._pod.document, value, around)
        except ManifestError as error:
            raise ContentError(str(error)) from error

    async def _token(self, source: FromToken) -> IssuedToken:
        known, now_ns = self._tokens.get(source), self._clock.now_ns()
        if known is None or is_due(known, now_ns):
            pod = self._pod
            account = pod.account or "default"
            order = TokenOrder(pod.namespace, account, pod.name, pod.uid, source.audience, source.seconds)
            known = self._tokens[source] = await self._keeper().token(order)
        return known

    def _keeper(self) -> ObjectKeeper:
        return self._configuration.keeper(self._pod.origin)

    async def _object(self, reference: ObjectRef) -> KeptText | None:
        found = await self._keeper().read(reference.kind, self._pod.namespace, reference.name)
        if found is None and not reference.is_optional:
            raise ContentError(f'{reference.kind} "{reference.name}" not found')
        return found

    def server_variables(self) -> list[tuple[str, str]]:
        """Where the API is that the pod came from, under the names by which programs in a cluster look for it."""
        server = self._configuration.server
        if server is None or self._pod.origin != API_ORIGIN:
            return []
        host, port = server
        return [("KUBERNETES_SERVICE_HOST", Given(host)), ("KUBERNETES_SERVICE_PORT", Given(str(port)))]

    async def variables(
        self, env: Iterable[tuple[str, str | Reference]], env_from: Iterable[AllKeys]
    ) -> list[tuple[str, str]]:
        """All variables of a container in their order, those of `envFrom` first. Raises ContentError."""
        env, env_from = list(env), list(env_from)
        named = [value.object for _, value in env if isinstance(value, KeyRef)]
        async with self._gathered([*(each.object for each in env_from), *named]) as objects:
            places = {each: at for at, each in enumerate(objects)}
            order: VariablesOrder = (
                *(AllVariables(places[each.object], each.prefix) for each in env_from),
                *(self._variable(name, value, places) for name, value in env),
            )
            if _is_small(objects):
                found = variables_of(order, _taken_apart(objects))
            else:
                found = await self._wait_for(variables_aside, order, list(objects.values()))
        texts_of = ((name, value.decode(errors=_ESCAPED), is_given) for name, value, is_given in found)
        return [(name, Given(value) if is_given else value) for name, value, is_given in texts_of]

    def _variable(self, name: str, value: str | Reference, places: Mapping[ObjectRef, int]) -> Variable | KeyVariable:
        """Raises ContentError."""
        if isinstance(value, str):
            return Variable(name, value.encode(errors=_ESCAPED), isinstance(value, Given))
        if isinstance(value, KeyRef):
            kind = "ConfigMap" if value.object.kind is ObjectKind.CONFIG_MAP else "Secret"
            missing = f"couldn't find key {value.key} in {kind} {self._pod.namespace}/{value.object.name}"
            return KeyVariable(name, places[value.object], value.key, "" if value.object.is_optional else missing)
        return Variable(name, self._own_value(value).encode(errors=_ESCAPED), is_given=True)


_ESCAPED = "surrogateescape"

_NO_KEY = {
    ObjectKind.CONFIG_MAP: "configmap references non-existent config key",
    ObjectKind.SECRET: "references non-existent secret key",
}


def _is_small(objects: Gathered) -> bool:
    return sum(kept.weight for kept in objects.values() if kept is not None) <= SMALL


def is_due(token: IssuedToken, now_ns: int) -> bool:
    """Whether it is time for another one: at 80 % of its life, or after a day."""
    life_ns = token.expires_ns - token.issued_ns
    return now_ns - token.issued_ns >= min(life_ns * _RENEWED_AT, _DAY_NS) or now_ns < token.issued_ns


def _mode(mode: int | None, spec: ContentSpec) -> int:
    return spec.mode if mode is None else mode


def _taken_apart(objects: Gathered) -> list[KeptObject]:
    return [KeptObject() if each is None else each.take_apart() for each in objects.values()]


def _digest(order: FilesOrder, objects: Gathered) -> bytes:
    """Of what is asked for: while it is the same, so are the files."""
    digest = hashlib.blake2b(msgspec.json.encode(order), digest_size=DIGEST_SIZE)
    for each in objects.values():
        digest.update(b"-" if each is None else each.digest)
    return digest.digest()
