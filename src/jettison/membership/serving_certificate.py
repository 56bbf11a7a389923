"""The certificate of a node's own server, by the cluster's way: asked for with a CertificateSigningRequest, awaited,
taken when it is issued, and asked for again long before it ends.

Until then, and in a cluster that serves no such requests, the node goes on with the certificate that its annotation
names. One request is under way at a time, and pauses between requests grow, so a node leaves few of them behind.
"""

from __future__ import annotations

import base64
import binascii
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from jettison import events
from jettison.clock import Clock
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ApiError, NotFound, ServeError
from jettison.events import Emit
from jettison.runtimes.kube.client import Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import NODES, SIGNING_REQUESTS
from jettison.values import frozen

SIGNER: Final = "kubernetes.io/kubelet-serving"
# An elliptic key enciphers nothing, so it does not ask for that.
USAGES: Final = ("digital signature", "server auth")

_API: Final = "/apis/certificates.k8s.io/v1"
_SOON: Final = 1.0
# Between two looks at a request: an approver may be a person.
_FIRST_LOOK: Final = 1.0
_LONGEST_LOOK: Final = 30.0
# Between two requests, where the last one was refused, denied or lost.
_FIRST_RETRY: Final = 32.0
_LONGEST_RETRY: Final = 3600.0
# Where there is no such API, it may still come: a cluster is upgraded.
_ABSENT: Final = 3600.0
_LARGEST_CERTIFICATE: Final = 64 * 1024
_WHAT: Final = "get a serving certificate from the cluster"


@frozen
class KeyAndRequest:
    """A new key, and the request for it, as PEM."""

    key_pem: bytes
    request_pem: bytes


@frozen
class IssuedCertificate:
    """A key with its certificates, as PEM, and from when to when they hold."""

    chain_pem: bytes
    begins_ns: int
    ends_ns: int


class Certificates(Protocol):
    """What needs cryptography, and a disk. Everything raises ServeError."""

    async def request(self, user: str) -> KeyAndRequest:
        """A new one."""

    async def keep(self, chain_pem: bytes) -> IssuedCertificate:
        """Checked, and kept for the next start."""

    async def kept(self) -> IssuedCertificate:
        """By an earlier start."""


@frozen
class ServingPort:
    """The server that shows the certificate: what `annotation` of its Node says now, and how it gets another one."""

    annotation: str
    certificate_pem: str
    certificates: Certificates
    take: Callable[[bytes], None]


class ServingCertificate:
    """Of one node. `look` is to be called again after the seconds that it returns."""

    def __init__(self, client: KubeClient, node: str, port: ServingPort, emit: Emit, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._port = port
        self._emit = emit
        self._clock = clock
        self._is_published = False
        self._renew_ns: int | None = None
        self._pending: tuple[str, bytes] | None = None
        self._pause = _FIRST_LOOK
        self._retry = _FIRST_RETRY

    async def look(self) -> float:
        """One step; raises ApiError where the API cannot be reached."""
        if not self._is_published:
            return await self._publish()
        if self._pending is not None:
            return await self._look_at(*self._pending)
        if self._renew_ns is not None and (left_ns := self._renew_ns - self._clock.now_ns()) > 0:
            return min(left_ns / SECOND_NS, _LONGEST_RETRY)
        return await self._ask()

    async def _publish(self) -> float:
        """The Node must name our own certificate before it may be told that another one counts."""
        try:
            node = await self._client.get(NODES, self._node)
        except NotFound:
            return _SOON
        annotations = node["metadata"].get("annotations") or {}
        if annotations.get(self._port.annotation) != self._port.certificate_pem:
            return _SOON
        # Where none is kept, or none that still serves, another one is asked for.
        with suppress(ServeError):
            await self._take(await self._port.certificates.kept())
        self._is_published = True
        return 0.0

    async def _ask(self) -> float:
        try:
            await self._client.request("GET", _API)
            made = await self._port.certificates.request(f"system:node:{self._node}")
            created = await self._client.create(SIGNING_REQUESTS, _document(made.request_pem))
        except NotFound:
            return _ABSENT
        except (ServeError, ApiError) as error:
            return self._fail(str(error))
        self._pending, self._pause = (created["metadata"]["name"], made.key_pem), _FIRST_LOOK
        return self._pause

    async def _look_at(self, name: str, key_pem: bytes) -> float:
        try:
            found = await self._client.get(SIGNING_REQUESTS, name)
        except NotFound:
            return self._fail(f"the request {name} is gone")
        status = found.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition.get("type") in ("Denied", "Failed"):
                said = condition.get("message") or condition.get("reason") or "without a reason"
                return self._fail(f"the request {name} is {condition['type'].lower()}: {said}")
        text = status.get("certificate")
        if not text:
            self._pause = min(2 * self._pause, _LONGEST_LOOK)
            return self._pause
        try:
            await self._take(await self._port.certificates.keep(key_pem + _decoded(text)))
        except ServeError as error:
            return self._fail(f"what the request {name} has brought: {error}")
        self._pending, self._retry = None, _FIRST_RETRY
        return 0.0

    async def _take(self, issued: IssuedCertificate) -> None:
        """From now on. An API server of ours believes the annotation, so that has to go."""
        self._port.take(issued.chain_pem)
        gone = {"metadata": {"annotations": {self._port.annotation: None}}}
        await self._client.patch(NODES, self._node, gone, how=PatchType.MERGE)
        # As a kubelet does: after 70 to 90 % of its life, so that nodes do not ask all at once.
        share = random.uniform(0.7, 0.9)  # noqa: S311  no secret
        self._renew_ns = issued.begins_ns + round(share * (issued.ends_ns - issued.begins_ns))
        self._emit(events.ServingCertificateTaken(issued.ends_ns))

    def _fail(self, why: str) -> float:
        """The request is dropped; the next one comes later each time."""
        self._pending = None
        self._emit(events.ActionFailed(_WHAT, why))
        pause, self._retry = self._retry, min(2 * self._retry, _LONGEST_RETRY)
        return pause * random.uniform(1.0, 1.1)  # noqa: S311  no secret


def _document(request_pem: bytes) -> Document:
    spec: dict[str, Any] = {
        "request": base64.b64encode(request_pem).decode("ascii"),
        "signerName": SIGNER,
        "usages": list(USAGES),
    }
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return {**head, "metadata": {"generateName": "csr-"}, "spec": spec}


def _decoded(text: object) -> bytes:
    """Raises ServeError."""
    if not isinstance(text, str) or len(text) > _LARGEST_CERTIFICATE:
        raise ServeError(f"a certificate of more than {_LARGEST_CERTIFICATE} characters")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ServeError("a certificate that is not base64") from error
