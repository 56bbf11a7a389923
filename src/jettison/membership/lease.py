"""The node's heartbeat: its Lease in `kube-node-lease`, renewed every ten seconds.

Without it, for 50 seconds, a node counts as lost and its pods as not ready; so it goes before everything else.
"""

from __future__ import annotations

import asyncio
from typing import Final

from jettison.clock import Clock
from jettison.errors import Conflict, NotFound, UnreachableError
from jettison.manifests.times import exact_time_text
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import LEASES, NODE_LEASES

LEASE_SECONDS: Final = 40
RENEW_SECONDS: Final = 10.0


class NodeLease:
    """One node's; `uid` is that of its Node object, so that the lease goes when the node does."""

    def __init__(self, client: KubeClient, name: str, clock: Clock) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._lease: Document | None = None
        self.node_uid = ""

    async def renew(self) -> None:
        """Say that the node lives."""
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                self._lease = await self._write()
        except TimeoutError:
            raise UnreachableError(f"the lease was not renewed within {RENEW_SECONDS:g} s") from None
        except (Conflict, NotFound):
            self._lease = None
            raise

    async def _write(self) -> Document:
        if self._lease is None:
            try:
                self._lease = await self._client.get(LEASES, self._name, NODE_LEASES)
            except NotFound:
                return await self._client.create(LEASES, self._renewed({}), NODE_LEASES)
        return await self._client.replace(LEASES, self._renewed(self._lease))

    def _renewed(self, before: Document) -> Document:
        metadata = {**(before.get("metadata") or {}), "name": self._name, "namespace": NODE_LEASES}
        if self.node_uid:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self.node_uid}
            metadata["ownerReferences"] = [owner]
        # A MicroTime has six digits after the point, no more and no fewer.
        microseconds = self._clock.now_ns() // 1000 * 1000
        text = exact_time_text(microseconds).removesuffix("Z").partition(".")
        spec = {
            **(before.get("spec") or {}),
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": f"{text[0]}.{text[2][:6].ljust(6, '0')}Z",
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
