"""What the operator of a node can order by its socket: end, restart or evict a pod, enter it, take the node down.

Only the socket takes orders, and only its owner can open it; the loopback does not. A pod of an API is the API's to
end, so of those only commands inside are for the asking here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from jettison import events
from jettison.agent.agent import Agent
from jettison.agent.http import LONGEST_WAIT
from jettison.agent.http.server import Answer, Query, Route
from jettison.agent.journal.reading import PodQuery
from jettison.agent.pods.keeper import Keeper
from jettison.agent.pods.sources import ORIGIN
from jettison.engine.node.evictions import by_hand
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ApiError
from jettison.runtimes.protocol import Hosting, PodStatus

# Between two looks whether a pod that was told to restart is there again.
_PAUSE = 0.05

Enter = Callable[[str, str], bytes]
"""Of a pod and one of its containers: what it takes to run a command inside, as JSON. Raises JettisonError."""


class Controls:
    """Orders to one node. `leave` makes the process end as SIGTERM does. `leave_empty` makes it end all pods of its
    nodes as well, for members of an API that ends with them.
    """

    def __init__(
        self,
        node: str,
        runtime: Hosting,
        keeper: Keeper,
        agent: Agent,
        enter: Enter,
        leave: Callable[[], None],
        *,
        is_member: bool = False,
        leave_empty: Callable[[], None] | None = None,
    ) -> None:
        self._node = node
        self._runtime = runtime
        self._keeper = keeper
        self._agent = agent
        self._enter = enter
        self._leave = leave
        self._leave_empty = leave_empty
        self._leaving: asyncio.Task[None] | None = None
        # Its pods come from an API.
        self._is_member = is_member
        self._emit = agent.emit

    def routes(self) -> dict[str, Route]:
        """Every path that takes orders."""
        return {
            "/orders/delete": self.delete,
            "/orders/restart": self.restart,
            "/orders/evict": self.evict,
            "/orders/exec": self.exec,
            "/orders/down": self.down,
        }

    async def delete(self, query: Query) -> Answer:
        """End the pod and keep it from starting again; see `holds`."""
        status, grace = self._status(query), _grace(query)
        self._check_ours(status, "kubectl delete pod")
        self._note("delete", status)
        ending = self._keeper.delete(status, grace)
        return await self._told(query, status, ending)

    async def restart(self, query: Query) -> Answer:
        """End the pod and start it anew, as its manifest has it; also one that was deleted, evicted or has ended."""
        asked, grace = PodQuery.parse(_text(query, "pod")), _grace(query)
        held = [name for name in self._keeper.held if asked.matches((*_parts(name), ""))]
        if not self._found(asked) and len(held) == 1:
            self._emit(events.OrderReceived("restart", self._keeper.wanted(held[0])))
            self._keeper.release(held[0])
            return await self._again(query, held[0])
        status = self._status(query)
        self._check_ours(status, "kubectl delete pod, after which its controller makes another,")
        self._note("restart", status)
        ending = self._keeper.restart(status, grace)
        await _wait(query, ending)
        return await self._again(query, str(status.pod)) if ending.done() else _answer(status, isDone=False)

    async def evict(self, query: Query) -> Answer:
        """End the pod as pressure would, with its own grace period or this one: it stays in sight as Evicted."""
        status, grace = self._status(query), _grace(query)
        self._check_ours(status, "jettison evict --kubeconfig FILE")
        if status.phase in ENDED_PHASES:
            raise ApiError(f"pod `{status.pod}` has ended already: {status.reason or status.phase}", code=409)
        self._note("evict", status)
        order = by_hand(status.pod, grace)
        return await self._told(query, status, asyncio.ensure_future(self._agent.evict(order)))

    def exec(self, query: Query) -> Answer:
        """What it takes to run a command in a container; the client does the rest, so no stream passes here."""
        status = self._status(query)
        names = [each.name for each in status.containers if not each.is_init] or [""]
        entrance = self._enter(status.pod.uid, query.get("container") or names[0])
        self._note("exec", status)
        return Answer(entrance)

    def down(self, query: Query) -> Answer:
        """End the agent; before that all pods, unless they are to be kept."""
        keeps = _text(query, "pods") == "keep"
        if self._is_member and not keeps and self._leave_empty is None:
            raise ApiError(
                f"node `{self._node}` is a member of a cluster, and its pods are the API's: `jettison drain "
                f"{self._node}` empties it; then --keep-pods ends the agent",
                code=409,
            )
        self._emit(events.OrderReceived("down"))
        count = 0 if keeps else len(self._runtime.statuses())
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._go_down(keeps=keeps))
        return Answer(msgspec.json.encode({"node": self._node, "pods": count}))

    async def _go_down(self, *, keeps: bool) -> None:
        leave = self._leave if keeps or self._leave_empty is None else self._leave_empty
        if keeps or leave is self._leave_empty:
            # The answer first.
            await asyncio.sleep(_PAUSE)
        else:
            await self._keeper.stop_all()
        leave()

    async def _told(self, query: Query, status: PodStatus, ending: Awaitable[object]) -> Answer:
        done = asyncio.ensure_future(ending)
        await _wait(query, done)
        return _answer(status, isDone=done.done())

    async def _again(self, query: Query, name: str) -> Answer:
        """Once the keeper has started it, or was not let to."""
        self._keeper.wake()
        deadline = asyncio.get_running_loop().time() + _number(query, "wait", 0)
        while True:
            found = next((each for each in self._runtime.statuses() if str(each.pod) == name), None)
            if found is not None and not found.is_ending:
                return _answer(found, isDone=True)
            if asyncio.get_running_loop().time() >= deadline:
                namespace, short = _parts(name)
                return Answer(msgspec.json.encode({"namespace": namespace, "name": short, "isDone": False}))
            await asyncio.sleep(_PAUSE)

    def _found(self, asked: PodQuery) -> list[PodStatus]:
        return [
            each
            for each in self._runtime.statuses()
            if asked.matches((each.pod.namespace, each.pod.name, each.pod.uid))
        ]

    def _status(self, query: Query) -> PodStatus:
        asked = PodQuery.parse(_text(query, "pod"))
        found = self._found(asked)
        names = sorted({str(each.pod) for each in found})
        if not found:
            raise ApiError(f"there is no pod `{asked}` on node `{self._node}`", code=404)
        if len(names) > 1:
            raise ApiError(f"which pod is meant? there are {', '.join(names)}", code=400)
        # Of two with one name the older is making room for the newer.
        return min(found, key=lambda each: each.is_ending)

    def _note(self, order: str, status: PodStatus) -> None:
        self._emit(events.OrderReceived(order, status.pod))

    def _check_ours(self, status: PodStatus, instead: str) -> None:
        annotations = (status.document.get("metadata") or {}).get("annotations") or {}
        if self._is_member and ORIGIN not in annotations:
            pod = status.pod
            raise ApiError(f"pod `{pod}` is the API's: `{instead}` is for that (namespace {pod.namespace})", code=409)


async def _wait(query: Query, ending: asyncio.Future[Any]) -> None:
    await asyncio.wait([ending], timeout=_number(query, "wait", 0))
    if ending.done():
        ending.result()


def _parts(name: str) -> tuple[str, str]:
    namespace, _, short = name.partition("/")
    return namespace, short


def _answer(status: PodStatus, **more: object) -> Answer:
    pod = status.pod
    annotations = (status.document.get("metadata") or {}).get("annotations") or {}
    said = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "manifest": annotations.get(ORIGIN, "")}
    return Answer(
        msgspec.json.encode({**said, "phase": status.phase, "reason": status.reason, "message": status.message, **more})
    )


def _grace(query: Query) -> int | None:
    """Read before anything is done, and with it how long to wait: a mistake in either must have no effect."""
    _number(query, "wait", 0)
    grace: int | None = _number(query, "grace")
    return grace


def _text(query: Query, name: str) -> str:
    text = query.get(name, "")
    if not text:
        raise ApiError(f"`{name}` is missing", code=400)
    return text


def _number(query: Query, name: str, default: Any = None) -> Any:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= LONGEST_WAIT):
        raise ApiError(f"`{name}` is not a number of seconds up to {LONGEST_WAIT}", code=400)
    return int(text)
