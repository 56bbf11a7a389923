"""GET of what a container has printed: an answer in pieces, which has no end while a log is followed.

Whoever keeps logs is asked; here is only what the request means and how it is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from jettison.apiserver.options import integer
from jettison.apiserver.requests import Request, Target
from jettison.apiserver.resources import PODS
from jettison.apiserver.statuses import bad_request, not_found
from jettison.apiserver.store import Store
from jettison.apiserver.validation.mistakes import invalid, refusal
from jettison.errors import ApiError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which log, and how much of it."""

    container: str
    # None: all there are.
    tail_lines: int | None = None
    most_bytes: int | None = None
    # The run before the last one.
    is_previous: bool = False
    # Go on as it writes, until it ends.
    is_followed: bool = False


class LogSource(Protocol):
    """Whoever keeps what containers print: nodes in this process, or a way to those elsewhere."""

    def read_log(self, pod: Json, query: LogQuery) -> AsyncIterator[bytes]:
        """In pieces; an ApiError comes before the first of them."""


class ContainerLogs:
    """The handler."""

    def __init__(self, store: Store, source: LogSource | None) -> None:
        self._store = store
        self._source = source

    def open(self, request: Request, target: Target) -> AsyncIterator[bytes]:
        """What is to be sent; raises ApiError, too."""
        found = self._store.get(PODS, target.namespace, target.name)
        if found is None:
            raise not_found(PODS, target.name)
        query = LogQuery(
            request.parameter("container") or _only_container(found.object),
            _amount(request, "tailLines", 0),
            _amount(request, "limitBytes", 1),
            request.is_set("previous"),
            request.is_set("follow"),
        )
        if self._source is None:
            message = "no node of this server keeps logs"
            raise ApiError(message, code=503, reason="ServiceUnavailable", details={})
        return self._source.read_log(found.object, query)


def _amount(request: Request, name: str, least: int) -> int | None:
    number = integer(request, name)
    if number is not None and number < least:
        why = f"must be greater than or equal to {least}"
        raise refusal("", "PodLogOptions", "", [invalid(name, number, why)])
    return number


def _only_container(pod: Json) -> str:
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    if len(names) == 1:
        return str(names[0])
    listed = " ".join(names)
    raise bad_request(
        f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{listed}]"
    )
