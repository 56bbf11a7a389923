"""Requests to a Kubernetes API. Objects are plain JSON values, so a field that we have never heard of survives.

An answer of 429 or 5xx with `Retry-After` is obeyed up to ten times before the caller hears of it, as client-go does,
and a read whose connection broke is repeated. Every wait is an `await`: a caller's deadline holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from jettison.errors import ApiError, ConnectionBroken, ManifestError
from jettison.runtimes.kube.answers import ERROR, AnswerReader, Page, checked, checked_event, status_error, weight_of
from jettison.runtimes.kube.kinds import PODS, Kind, sendable
from jettison.runtimes.kube.kubeconfig import Access
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpRequest, HttpResponse

Document = dict[str, Any]
T = TypeVar("T")
Notice = Callable[[ApiError, int], None]
"""Told that the server asked for patience: why, and for how many seconds."""

MOST_RETRIES: Final = 10
_LONGEST_PATIENCE: Final = 3600
_LONGEST_NUMBER: Final = 10
CHUNK: Final = 500
# The API server itself gives up after 60 s, and an eviction may take 34 of them.
REQUEST_SECONDS: Final = 65.0
WATCH_SECONDS: Final = 300
_UNAUTHORIZED: Final = 401
_AUTHORIZATION: Final = "Authorization"


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """All at once. When one fails, the others are ended before the failure goes on: none outlives its client."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PatchType(StrEnum):
    """How a patch is to be understood."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Listing(NamedTuple):
    """All objects, and the moment they are of: a watch goes on from there."""

    items: list[Document]
    resource_version: str


class WatchEvent(NamedTuple):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    kind: str
    object: Document


@frozen
class DeleteOptions:
    """How an object is to go. None seconds: as the object itself says. `version`: only if it is still that one."""

    grace_seconds: int | None = None
    uid: str = ""
    is_dry_run: bool = False
    propagation: str = ""
    version: str = ""

    def data(self) -> Document:
        """As a request carries them."""
        data: Document = {}
        if self.grace_seconds is not None:
            data["gracePeriodSeconds"] = self.grace_seconds
        conditions = {"uid": self.uid, "resourceVersion": self.version}
        if self.uid or self.version:
            data["preconditions"] = {key: value for key, value in conditions.items() if value}
        if self.is_dry_run:
            data["dryRun"] = ["All"]
        if self.propagation:
            data["propagationPolicy"] = self.propagation
        return data


AS_IT_SAYS: Final = DeleteOptions()


class KubeClient:
    """One API, as one user. An asynchronous context manager: it holds connections open."""

    most_objects = AnswerReader.most_objects
    most_weight = AnswerReader.most_weight

    def __init__(
        self, access: Access, request_seconds: float = REQUEST_SECONDS, answers: AnswerReader | None = None
    ) -> None:
        # Not before: it is in an extra, and commands without it must be able to say so.
        from jettison.runtimes.kube.credentials import RenewedTrust, authentication, trust  # noqa: PLC0415
        from jettison.runtimes.kube.http import HttpClient, HttpRequest  # noqa: PLC0415

        self.access = access
        self._answers = answers or AnswerReader()
        self.most_objects, self.most_weight = self._answers.most_objects, self._answers.most_weight
        self._seconds = request_seconds
        self._headers = {"Accept": "application/json", "User-Agent": "jettison"}
        self._headers["Accept-Encoding"] = self._answers.encoding
        self._authentication = authentication(access)
        self._request = HttpRequest
        self._http = HttpClient(
            access.server,
            trust(access),
            name=access.tls_server_name,
            proxy=access.proxy,
            renewed_tls=RenewedTrust(access),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def get(self, kind: Kind, name: str, namespace: str = "", subresource: str = "") -> Document:
        """One object."""
        path = kind.path(namespace, name, subresource)
        return checked(await self.request("GET", path), f"GET {path}")

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", chunk: int = CHUNK
    ) -> Listing:
        """All objects that match, read in chunks; 0: in one piece. Where the pieces expire, in one piece after all."""
        params = {"labelSelector": labels, "fieldSelector": fields, "limit": str(chunk) if chunk > 0 else ""}
        items: list[Document] = []
        weight, token = 0, ""
        while True:
            try:
                page = await self._page(kind.path(namespace), {**params, "continue": token})
            except ApiError as error:
                if error.code != 410 or not token:
                    raise
                items, weight, token, params["limit"] = [], 0, "", ""
                continue
            items += (checked(each, f"GET {kind.path(namespace)}") for each in page.items)
            weight += sum(map(weight_of, page.items))
            if len(items) > self.most_objects or weight > self.most_weight:
                bound = f"{self.most_objects} objects or {self.most_weight} bytes of memory"
                raise ManifestError(f"GET {kind.path(namespace)}: more than {bound}")
            former, token = token, _text(page.metadata, "continue")
            if not token:
                return Listing(items, _text(page.metadata, "resourceVersion"))
            if token == former:
                raise ManifestError(f"GET {kind.path(namespace)}: the server sends the same part of the list again")

    async def watch(
        self, kind: Kind, since: str = "", namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Every change after `since`, in lists of what came together, until the server has enough; ApiError 410 where
        that is too long ago.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "resourceVersion": since,
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        request = await self._build("GET", kind.path(namespace), params, None, "", seconds=WATCH_SECONDS + 60.0)
        response = await self._send(request)
        try:
            if response.status != 200:
                raise await self._answers.refusal(response)
            async for told in self._answers.events(response):
                # An error is the last thing that a watch tells.
                end = next((place for place, (kind, _) in enumerate(told) if kind == ERROR), len(told))
                if events := [WatchEvent(kind, checked_event(kind, found)) for kind, found in told[:end]]:
                    yield events
                if end < len(told):
                    raise status_error(told[end][1])
        finally:
            response.close()

    async def create(self, kind: Kind, body: Document, namespace: str = "", subresource: str = "") -> Document:
        """A new object; with a subresource, something to do to the object that the body names."""
        name = body["metadata"]["name"] if subresource else ""
        path = kind.path(namespace, name, subresource)
        answer = await self.request("POST", path, body=body)
        return answer if subresource else checked(answer, f"POST {path}")

    async def replace(self, kind: Kind, body: Document, subresource: str = "") -> Document:
        """The whole object; its resourceVersion makes it a compare-and-swap."""
        metadata = body["metadata"]
        path = kind.path(metadata.get("namespace") or "", metadata["name"], subresource)
        return checked(await self.request("PUT", path, body=body), f"PUT {path}")

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: object,
        namespace: str = "",
        *,
        how: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> Document:
        """A part of the object."""
        params, path = {"dryRun": "All" if is_dry_run else ""}, kind.path(namespace, name, subresource)
        return checked(await self.request("PATCH", path, params, body, content_type=how), f"PATCH {path}")

    async def delete(self, kind: Kind, name: str, namespace: str = "", options: DeleteOptions = AS_IT_SAYS) -> Document:
        """One object, if it still is the one that the options name."""
        return await self.request("DELETE", kind.path(namespace, name), body=options.data() or None)

    async def evict(
        self,
        name: str,
        namespace: str,
        options: DeleteOptions = AS_IT_SAYS,
        *,
        version: str = "policy/v1",
        notice: Notice | None = None,
    ) -> None:
        """Ask for a pod's eviction; an ApiError 429 is a budget's refusal, its details name the budget."""
        body: Document = {
            "apiVersion": version,
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        if data := options.data():
            body["deleteOptions"] = data
        await self.request("POST", PODS.path(namespace, name, "eviction"), body=body, notice=notice)

    async def eviction_version(self) -> str:
        """The version of the Eviction kind that the server takes, empty where it knows no evictions."""
        found = await self.request("GET", "/api/v1")
        for each in found.get("resources") or ():
            if each.get("name") == "pods/eviction" and each.get("kind") == "Eviction":
                group, version = each.get("group"), each.get("version")
                if group and version:
                    return "policy/v1" if (group, version) == ("policy", "v1") else "policy/v1beta1"
        return ""

    async def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: object = None,
        *,
        content_type: str = "application/json",
        notice: Notice | None = None,
    ) -> Document:
        """Any request with a JSON answer."""
        request = await self._build(method, path, params or {}, body, content_type)
        source = f"{method} {path}"
        return await self._exchange(request, lambda response: self._answers.document(response, source), notice)

    async def fetch(self, path: str, begin: Callable[[], Callable[[bytes], None]], most_bytes: int) -> None:
        """The answer to a GET as it comes, for a caller that decodes it elsewhere; a ManifestError if it is longer.

        `begin` is called for each attempt and returns what takes the pieces.
        """
        request = await self._build("GET", path, {}, None, "")

        async def read(response: HttpResponse) -> None:
            take, size = begin(), 0
            async for chunk in response.chunks():
                size += len(chunk)
                if size > most_bytes:
                    raise ManifestError(f"GET {path}: more than {most_bytes} bytes")
                take(chunk)

        await self._exchange(request, read)

    async def _page(self, path: str, params: Mapping[str, str]) -> Page:
        request = await self._build("GET", path, params, None, "")
        return await self._exchange(request, lambda response: self._answers.page(response, f"GET {path}"))

    async def _exchange(
        self, request: HttpRequest, read: Callable[[HttpResponse], Awaitable[T]], notice: Notice | None = None
    ) -> T:
        for left in range(MOST_RETRIES, -1, -1):
            try:
                response = await self._send(request)
                try:
                    if response.is_success:
                        return await read(response)
                    error = await self._answers.refusal(response)
                finally:
                    response.close()
            except ConnectionBroken:
                if not left or request.method != "GET":
                    raise
                await asyncio.sleep(1)
                continue
            seconds = _patience(response)
            if seconds is None or not left:
                raise error
            if notice is not None:
                notice(error, seconds)
            await asyncio.sleep(seconds)
        raise AssertionError("the last round returns or raises")

    async def _send(self, request: HttpRequest) -> HttpResponse:
        """The answer, also where the server takes only a newer token or certificate than the one we had."""
        response = await self._http.send(request)
        if response.status != _UNAUTHORIZED:
            return response
        try:
            fresh = "" if self._authentication is None else await self._authentication.renewed()
        except BaseException:
            response.close()
            raise
        if not (self._http.renew() or fresh):
            return response
        response.close()
        headers = {**request.headers, _AUTHORIZATION: fresh} if fresh else request.headers
        return await self._http.send(request._replace(headers=headers))

    async def _build(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: object,
        content_type: str,
        *,
        seconds: float | None = None,
    ) -> HttpRequest:
        headers = dict(self._headers)
        if self._authentication is not None:
            headers[_AUTHORIZATION] = await self._authentication.header()
        if body is not None:
            headers["Content-Type"] = content_type
        query = urlencode({name: sendable(value) for name, value in params.items() if value})
        content = b"" if body is None else msgspec.json.encode(body)
        target = f"{path}?{query}" if query else path
        patience = self._seconds if seconds is None else seconds
        return self._request(method, target, headers, content, patience, patience)


def _text(metadata: Document, key: str) -> str:
    """Empty where it is none."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def _patience(response: HttpResponse) -> int | None:
    """How long the server wants us to wait; None where it does not say, or says it otherwise than in seconds.

    A client that is told to wait for a day is better told why.
    """
    if response.status != 429 and response.status < 500:
        return None
    text = response.headers.get("retry-after", "")
    is_number = text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER
    return int(text) if is_number and int(text) <= _LONGEST_PATIENCE else None
