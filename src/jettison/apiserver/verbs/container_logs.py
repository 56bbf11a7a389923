"""GET of what a container has printed: an answer in pieces, which has no end while a log is followed.

The node that runs the pod is asked; here is only what the request means and how it is refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from jettison.apiserver.http.options import integer
from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.resources import PODS
from jettison.apiserver.objects.validation.mistakes import forbidden, invalid, refusal
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.log_query import LogQuery, LogSource
from jettison.clock import Clock
from jettison.errors import ApiError, ManifestError
from jettison.manifests.times import parse_time

Json = dict[str, Any]


class ContainerLogs:
    """The handler. `local` are the nodes of this process, by name, and may change; `remote` asks all others."""

    def __init__(self, store: Store, clock: Clock, local: Mapping[str, LogSource], remote: LogSource | None) -> None:
        self._store = store
        self._clock = clock
        self._local = local
        self._remote = remote

    def open(self, request: Request, target: Target) -> AsyncGenerator[bytes, None]:
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
            _since_ns(request, self._clock),
            # Everything but a clear no is a yes here, as upstream reads it.
            request.parameters.get("timestamps", ["false"])[0].lower() not in ("false", "0"),
        )
        return self._source(found.object, query).read_log(found.object, query)

    def _source(self, pod: Json, query: LogQuery) -> LogSource:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if query.container not in _containers(pod):
            raise bad_request(f"container {query.container} is not valid for pod {name}")
        if not node:
            raise bad_request(f"pod {name} does not have a host assigned")
        source = self._local.get(node, self._remote)
        if source is None:
            message = "no node of this server keeps logs"
            raise ApiError(message, code=503, reason="ServiceUnavailable", details={})
        return source


def _amount(request: Request, name: str, least: int) -> int | None:
    number = integer(request, name)
    if number is not None and number < least:
        why = f"must be greater than or equal to {least}"
        raise refusal("", "PodLogOptions", "", [invalid(name, number, why)])
    return number


def _since_ns(request: Request, clock: Clock) -> int | None:
    seconds, moment = _amount(request, "sinceSeconds", 1), request.parameter("sinceTime")
    if seconds is not None and moment:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        raise refusal("", "PodLogOptions", "", [forbidden("", why)])
    if seconds is not None:
        return clock.now_ns() - seconds * 10**9
    try:
        return parse_time(moment) if moment else None
    except ManifestError as error:
        raise bad_request(f"`sinceTime` is `{moment}`: {error}") from error


def _containers(pod: Json) -> list[str]:
    spec = pod["spec"]
    return [each["name"] for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]


def _only_container(pod: Json) -> str:
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    if len(names) == 1:
        return str(names[0])
    listed = " ".join(names)
    raise bad_request(
        f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{listed}]"
    )
