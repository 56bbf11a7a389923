"""The whole application without a socket: a request goes in as ASGI has it, the answer comes out decoded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jettison.apiserver.access.account_tokens import AccountTokens
from jettison.apiserver.access.auth import Authenticator, TokenEntry
from jettison.apiserver.cluster import ensure_system_objects
from jettison.apiserver.housekeeping import Housekeeping
from jettison.apiserver.http.app import Application
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.eviction import Settings
from jettison.apiserver.verbs.node_client import NodeClient
from jettison.apiserver.verbs.resource_usage import PAUSE_SECONDS
from jettison.apiserver.verbs.watch import PACE, WatchPace

Json = dict[str, Any]
T = TypeVar("T")

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    code: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Json:
        found: Json = json.loads(self.content)
        return found

    @property
    def message(self) -> str:
        return str(self.body["message"])


class SettableClock:
    """Wall time as a test wants it; what is monotonic is real, because timeouts are."""

    def __init__(self, seconds: int = 1_800_000_000) -> None:
        self.seconds = seconds

    def now_ns(self) -> int:
        return self.seconds * 10**9

    def monotonic_ns(self) -> int:
        return int(asyncio.get_event_loop().time() * 10**9)

    def steady_ns(self) -> int:
        return self.monotonic_ns()


class Served:
    """An application on a store in a folder, and the loop both live in."""

    def __init__(
        self,
        folder: Path,
        evictions: Settings | None = None,
        *,
        has_accounts: bool = False,
        nodes: NodeClient | None = None,
        watch_pace: WatchPace = PACE,
        open_store: Callable[[Path], Store] = Store,
        usage_pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = SettableClock()
        self.store = self.loop.run_until_complete(self._open(open_store, folder))
        roles = ("admin", "viewer", "evictor")
        tokens = [TokenEntry(token=role, user=role, role=role) for role in roles]
        tokens.append(TokenEntry(token="node", user="system:node:n1", role="node"))
        accounts = AccountTokens(b"k" * 32, self.store, self.clock)
        users = Authenticator(tokens, accounts)
        self.app = Application(
            self.store,
            self.clock,
            users,
            evictions=evictions,
            nodes=nodes,
            has_accounts=has_accounts,
            watch_pace=watch_pace,
            usage_pause_seconds=usage_pause_seconds,
        )

    async def _open(self, open_store: Callable[[Path], Store], folder: Path) -> Store:
        store = open_store(folder)
        await ensure_system_objects(store, self.clock)
        return store

    def close(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def keep_house(self) -> None:
        """What the server does by itself, twice: the first round may remove the last thing that held a namespace."""

        async def rounds() -> None:
            housekeeping = Housekeeping(self.store, self.clock)
            for _ in range(2):
                await housekeeping.round()

        self.run(rounds())

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        content_type: str | None = "application/json",
        accept: str = "application/json",
        token: str = "admin",
        leave: asyncio.Event | None = None,
        headers: dict[str, str] | None = None,
        repeated: Iterable[tuple[str, str]] = (),
    ) -> Answer:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"accept": accept, **({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        if content_type is not None:
            given["content-type"] = content_type
        # As uvicorn hands them on.
        sent_headers = [(name.lower().encode(), value.encode()) for name, value in (*given.items(), *repeated)]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": sent_headers,
        }
        sent: list[Any] = []

        async def receive() -> Json:
            if sent:  # only a watch asks again: it listens for the client's end
                await (leave or asyncio.Event()).wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        found: dict[str, str] = {}
        for name, value in sent[0]["headers"]:
            key = name.decode()
            found[key] = f"{found[key]}, {value.decode()}" if key in found else value.decode()
        return Answer(sent[0]["status"], found, b"".join(each["body"] for each in sent[1:]))

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return self.run(self.ask(method, path, body, **options))

    def get(self, path: str, **options: Any) -> Answer:
        return self("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Answer:
        return self("POST", path, body, **options)

    def patch(self, path: str, body: Any, kind: str = MERGE, **options: Any) -> Answer:
        return self("PATCH", path, body, content_type=kind, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self("DELETE", path, body, **options)

    def together(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        async def gather() -> list[T]:
            return await asyncio.gather(*work)

        return self.run(gather())

    # What most tests begin with.

    def pod(
        self, name: str, *, node: str = "n1", phase: str = "Running", ready: bool | None = True, **rest: Any
    ) -> Json:
        """A pod in the namespace `default`, with a status as its node would have written it."""
        document = pod_document(name, node=node, **rest)
        created = self.post(PODS, document)
        assert created.code == 201, created.content
        if phase != "Pending" or ready is not None:
            conditions = [] if ready is None else [{"type": "Ready", "status": str(ready)}]
            status = {"status": {"phase": phase, "conditions": conditions}}
            return self.patch(f"{PODS}/{name}/status", status).body
        return created.body

    def budget(self, name: str = "pdb", *, status: Json | None = None, **spec: Any) -> Json:
        """A budget over `app: web`, and the numbers that a controller would have computed."""
        spec.setdefault("selector", {"matchLabels": {"app": "web"}})
        created = self.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})
        assert created.code == 201, created.content
        if status is None:
            return created.body
        numbers = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": 0}
        whole = {**numbers, "observedGeneration": 1, **status}
        written = self.patch(f"{BUDGETS}/{name}/status", {"status": whole})
        assert written.code == 200, written.content
        return written.body

    def evict(self, name: str, options: Json | None = None, **more: Any) -> Answer:
        body: Json = {"metadata": {"name": name}}
        if options is not None:
            body["deleteOptions"] = options
        return self.post(f"{PODS}/{name}/eviction", body, **more)


def pod_document(
    name: str, *, node: str = "", labels: Json | None = None, metadata: Json | None = None, **spec: Any
) -> Json:
    containers = [{"name": "c", "image": "registry.example/app:1"}]
    whole = {"containers": containers, **({"nodeName": node} if node else {}), **spec}
    return {"metadata": {"name": name, "labels": labels or {"app": "web"}, **(metadata or {})}, "spec": whole}
