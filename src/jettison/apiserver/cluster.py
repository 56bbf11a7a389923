"""One state directory, served: store, identity, users and the API on them.

<state_dir>/admin.kubeconfig, …        one per user, for people and programs
<state_dir>/cluster/store.sqlite       the objects
<state_dir>/cluster/pki/               the authority and the server's certificate
<state_dir>/cluster/tokens.json        tokens, with their users and roles
<state_dir>/cluster/accounts.key       what signs the tokens of service accounts
<state_dir>/cluster/store.mark         the newest acknowledged version
<state_dir>/cluster/store.reserve      room for deletions on a full disk
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from jettison.apiserver.access.account_tokens import AccountTokens, ensure_key
from jettison.apiserver.access.auth import NODE_PREFIX, Authenticator, ensure_tokens, write_kubeconfig
from jettison.apiserver.access.identity import IdentityMaker, ServerIdentity
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.apiserver.connections.server import listen, serve
from jettison.apiserver.housekeeping import Housekeeping
from jettison.apiserver.http.app import Application
from jettison.apiserver.objects.admission import SYSTEM_NAMESPACES
from jettison.apiserver.objects.resources import NAMESPACES, PRIORITY_CLASSES, Resource
from jettison.apiserver.objects.schema import read_document
from jettison.apiserver.objects.writing import prepare_new
from jettison.apiserver.storage.private_files import make_private_folder
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.eviction import Settings
from jettison.apiserver.verbs.log_query import LogSource
from jettison.apiserver.verbs.node_client import NodeClient
from jettison.clock import Clock, SystemClock
from jettison.engine.budgets.budget import EXACT, ApiSwitches
from jettison.errors import InputError
from jettison.manifests.files.documents import SYSTEM_CLASSES
from jettison.values import frozen

PEOPLE: Mapping[str, str] = {"admin": "admin", "viewer": "viewer", "evictor": "evictor"}
"""Users that every cluster has, with their roles; the process that runs a node adds that."""


@frozen
class Cluster:
    """What to serve and where."""

    state_dir: Path
    endpoint: Endpoint
    users: Mapping[str, str] = field(default_factory=lambda: PEOPLE)
    clock: Clock = field(default_factory=SystemClock)
    # None: each node is asked for the logs of its containers.
    logs: LogSource | None = None
    switches: ApiSwitches = EXACT
    # Whether a controller gives every namespace its `default` service account.
    has_accounts: bool = False

    def __post_init__(self) -> None:
        taken: set[Path] = set()
        for user in self.users:
            path = self.kubeconfig(user)
            if path in taken:
                raise InputError(f"a node cannot be called `{path.stem}`: `{path.name}` is the file of another user")
            taken.add(path)

    @property
    def folder(self) -> Path:
        """Where the server keeps its own files."""
        return self.state_dir / "cluster"

    def kubeconfig(self, user: str) -> Path:
        """`admin.kubeconfig`; a node's without the prefix that all nodes share."""
        return self.state_dir / f"{user.removeprefix(NODE_PREFIX)}.kubeconfig"

    def _has_joined(self, user: str) -> bool:
        """A node of an earlier start keeps its token, and finds the server only where its file says."""
        path = self.kubeconfig(user)
        is_free = path not in map(self.kubeconfig, self.users)
        return user.startswith(NODE_PREFIX) and "/" not in user and is_free and path.exists()

    async def run(self, stop: asyncio.Event, on_ready: Callable[[Endpoint], None]) -> None:
        """Serve until `stop` is set. The directory is locked first: two servers would overwrite each other's files."""
        make_private_folder(self.state_dir, is_ours=False)
        store = Store(self.folder, clock=self.clock)
        try:
            making = IdentityMaker(self.folder / "pki", self.endpoint.names)
            await ensure_system_objects(store, self.clock)
            identity = making.wait()
            listener, endpoint = listen(self.endpoint)
            with listener:
                await self._serve(store, listener, endpoint, identity, stop, on_ready)
        finally:
            await store.close()

    async def _serve(
        self,
        store: Store,
        listener: socket.socket,
        endpoint: Endpoint,
        identity: ServerIdentity,
        stop: asyncio.Event,
        on_ready: Callable[[Endpoint], None],
    ) -> None:
        entries = ensure_tokens(self.folder / "tokens.json", self.users)
        for entry in entries:
            if entry.user in self.users or self._has_joined(entry.user):
                path = self.kubeconfig(entry.user)
                write_kubeconfig(path, endpoint.url, identity.authority_pem, entry.user, entry.token)
        tokens = AccountTokens(ensure_key(self.folder / "accounts.key"), store, self.clock)
        app = Application(
            store,
            self.clock,
            Authenticator(entries, tokens),
            evictions=Settings(switches=self.switches),
            logs=self.logs,
            nodes=NodeClient(store, identity.client, identity.authority_pem),
            has_accounts=self.has_accounts,
        )
        keeping = asyncio.create_task(Housekeeping(store, self.clock).run())
        try:
            await serve(
                app,
                listener,
                identity,
                stop,
                on_ready=lambda: on_ready(endpoint),
                identify=app.identify,
                tidy=store.compact,
            )
        finally:
            keeping.cancel()


# The namespaces and priority classes that every cluster has.
_DESCRIPTIONS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


async def ensure_system_objects(store: Store, clock: Clock) -> None:
    """Make what is missing; what is there is left alone."""
    for name in SYSTEM_NAMESPACES:
        _ensure(store, clock, NAMESPACES, {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        metadata = {"name": name}
        _ensure(
            store, clock, PRIORITY_CLASSES, {"metadata": metadata, "value": value, "description": _DESCRIPTIONS[name]}
        )
    await store.settled()
    store.begun = len(SYSTEM_NAMESPACES) + len(SYSTEM_CLASSES)


def _ensure(store: Store, clock: Clock, resource: Resource, source: dict[str, Any]) -> None:
    name = source["metadata"]["name"]
    if store.head(resource, "", name) is None:
        value, _ = read_document(resource.struct, source)
        store.put(resource, "", name, prepare_new(resource, value, "", clock.now_ns(), _admitted))


def _admitted(value: dict[str, Any]) -> None:
    """Admission is for clients, not for what the server itself needs."""
    del value
