"""ConfigMaps, Secrets and tokens from the API, for the pods that it has bound to this node.

Each is asked for when it is needed, and one at a time. Its text is not decoded here: the largest has 2 MiB.
"""

from __future__ import annotations

import asyncio
from typing import Final

from jettison.clock import Clock
from jettison.errors import ContentError, JettisonError, NotFound
from jettison.manifests.files.decoding import Wire, convert
from jettison.manifests.times import parse_time
from jettison.runtimes.configuration import IssuedToken, ObjectKind, TokenOrder
from jettison.runtimes.kept_text import LARGEST_TEXT, KeptText
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS

_KINDS: Final = {ObjectKind.CONFIG_MAP: (CONFIG_MAPS, "ConfigMap"), ObjectKind.SECRET: (SECRETS, "Secret")}


class _Issued(Wire):
    token: str
    expiration_timestamp: str


class ApiObjects:
    """Implements the keeper that a runtime asks."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._turn = asyncio.Lock()

    async def read(self, kind: ObjectKind, namespace: str, name: str) -> KeptText | None:
        """One object, by its name: a node may read no others. To be closed."""
        what, title = _KINDS[kind]
        label = f'{kind} "{name}"'
        async with self._turn:
            found = KeptText(title, label)
            try:
                await self._client.fetch(what.path(namespace, name), found.begin, LARGEST_TEXT)
            except BaseException as error:
                found.close()
                if isinstance(error, NotFound):
                    return None
                if isinstance(error, JettisonError | OSError):
                    raise ContentError(f"{label}: {error}") from error
                raise
            return found

    async def token(self, order: TokenOrder) -> IssuedToken:
        """Bound to the pod: it ends with it, and with no other."""
        about = {"apiVersion": "v1", "kind": "Pod", "name": order.pod, "uid": order.uid}
        spec = {
            "audiences": [order.audience] if order.audience else [],
            "expirationSeconds": order.seconds,
            "boundObjectRef": about,
        }
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": order.account},
            "spec": spec,
        }
        issued_ns = self._clock.now_ns()
        try:
            answer = await self._client.create(SERVICE_ACCOUNTS, body, order.namespace, "token")
            issued = convert(answer.get("status"), _Issued, "status")
            return IssuedToken(issued.token, issued_ns, parse_time(issued.expiration_timestamp))
        except JettisonError as error:
            raise ContentError(f"failed to fetch token: {error}") from error
