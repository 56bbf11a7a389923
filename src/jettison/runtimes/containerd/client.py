"""The calls of containerd's own API that are needed, as functions; the messages are one table.

Names and numbers are facts of the interface. A namespace is named by a header of each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jettison.errors import ContainerRuntimeError
from jettison.runtimes.grpc.channel import NOT_FOUND, UNKNOWN, Channel
from jettison.runtimes.grpc.wire import Message, WireError, decode, encode, parse_table
from jettison.values import frozen

_SECONDS = 5.0
_NAMESPACES, _CONTAINERS, _TASKS = (
    f"containerd.services.{name}" for name in ("namespaces.v1.Namespaces", "containers.v1.Containers", "tasks.v1.Tasks")
)

MESSAGES = parse_table("""
ListNamespacesRequest: 1 filter string
ListNamespacesResponse: 1 namespaces []Namespace
Namespace: 1 name string
ListTasksRequest: 1 filter string
ListTasksResponse: 1 tasks []Process
Process: 1 container_id string, 2 id string, 3 pid int, 4 status int
GetContainerRequest: 1 id string
GetContainerResponse: 1 container Container
Container: 1 id string, 2 labels map, 3 image string, 8 created_at Timestamp
Timestamp: 1 seconds int, 2 nanos int
KillRequest: 1 container_id string, 2 exec_id string, 3 signal int, 4 all bool
Nothing:
""")

RUNNING, PAUSED = 2, 4
"""Of `Process.status`."""


@frozen
class RunningTask:
    """What runs of a container."""

    container: str
    pid: int
    status: int


@frozen
class RawContainer:
    """As it was made."""

    id: str
    labels: Mapping[str, str]
    image: str
    created_ns: int


class ContainerdClient:
    """One containerd. All calls raise ContainerRuntimeError and UnreachableError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._channel = Channel(path)

    @property
    def pid(self) -> int:
        """Of the process that answers; 0 while none does."""
        return self._channel.pid

    def close(self) -> None:
        """Calls that are under way fail."""
        self._channel.close()

    async def namespaces(self) -> tuple[str, ...]:
        """All of them."""
        found = await self._ask(_NAMESPACES, "List", "ListNamespaces", {})
        return tuple(each["name"] for each in found["namespaces"] if each["name"])

    async def tasks(self, namespace: str) -> tuple[RunningTask, ...]:
        """Whatever their state."""
        found = await self._ask(_TASKS, "List", "ListTasks", {}, namespace)
        return tuple(
            RunningTask(each["container_id"] or each["id"], each["pid"], each["status"]) for each in found["tasks"]
        )

    async def container(self, namespace: str, container: str) -> RawContainer | None:
        """None where there is none of that name."""
        try:
            found = (await self._ask(_CONTAINERS, "Get", "GetContainer", {"id": container}, namespace))["container"]
        except ContainerRuntimeError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        if found is None:
            return None
        at = found["created_at"] or {"seconds": 0, "nanos": 0}
        return RawContainer(found["id"], found["labels"], found["image"], at["seconds"] * 10**9 + at["nanos"])

    async def kill(self, namespace: str, container: str, number: int) -> None:
        """Send the signal to its main process."""
        await self._ask(_TASKS, "Kill", "Kill", {"container_id": container, "signal": number}, namespace)

    async def _ask(self, service: str, method: str, name: str, request: Message, namespace: str = "") -> Message:
        metadata = (("containerd-namespace", namespace),) if namespace else ()
        body = encode(MESSAGES, f"{name}Request", request)
        data = await self._channel.call(f"/{service}/{method}", body, _SECONDS, metadata)
        try:
            return decode(MESSAGES, f"{name}Response" if f"{name}Response" in MESSAGES else "Nothing", data)
        except WireError as error:
            raise ContainerRuntimeError(f"the answer to {method} cannot be read: {error}", UNKNOWN) from error
