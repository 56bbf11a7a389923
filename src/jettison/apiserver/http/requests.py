"""One request: what its path names, which verb it is, which user sends it, and what its query asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from jettison.apiserver.access.auth import ANONYMOUS, User
from jettison.apiserver.access.roles import Access
from jettison.apiserver.connections.limits import MOST_BODY_BYTES, is_yes
from jettison.apiserver.http.statuses import bad_request, unknown_path, unknown_resource
from jettison.apiserver.objects.resources import (
    ABSENT,
    GROUP_VERSIONS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    Resource,
    find_resource,
)
from jettison.apiserver.objects.validation.metadata import path_segment_name
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    forbidden,
    invalid,
    refusal,
    required,
    shown,
    too_long,
    unsupported,
)
from jettison.engine.labels.field_selectors import FieldSelector, parse_field_selector
from jettison.engine.numbers.durations import parse_duration
from jettison.engine.numbers.strconv import atoi
from jettison.errors import ApiError, InputError
from jettison.values import frozen

_ITEM_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_COLLECTION_VERBS: Final = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_HEADERS: Final = {
    b"accept": "accept",
    b"content-type": "content_type",
    b"if-none-match": "known_tag",
    b"user-agent": "agent",
}
_WATCH: Final = "watch"
_CUT_OFF: Final = re.compile(r"/+(?:api/[^/]+|apis/[^/]+/[^/]+)/(?:watch|proxy)/*")
_PROXY: Final = "proxy"
_PEOPLE: Final = ("curl/", "Wget/", "Mozilla/5.0")
_KNOWN_VERSIONS: Final = frozenset(GROUP_VERSIONS)

DRY_RUN_ALL: Final = "All"
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER: Final = 128
_NO_SELECTOR: Final = FieldSelector()


class Target(NamedTuple):
    """What a path names: a collection, an object (with a name) or a part of one (with a subresource)."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    # What follows a `proxy`, with its slash.
    rest: str = ""
    # By an older path, with `watch` in front of what is watched.
    is_watched: bool = False


class Request:
    """What the handlers need. The body is read before: no handler waits for a client."""

    __slots__ = (
        *("_problem", "accept", "agent", "body", "content_type", "known_tag", "method", "parameters", "path"),
        *("most_bytes", "target", "user", "verb", "warnings"),
    )

    def __init__(self, method: str, path: str, query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.method = method
        self.path = path
        self.parameters: dict[str, list[str]] = {}
        for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else ():
            self.parameters.setdefault(key, []).append(value)
        self.content_type = self.accept = self.agent = self.known_tag = ""
        for name, content in headers:
            if name in _HEADERS:
                setattr(self, _HEADERS[name], content.decode("latin-1"))
        self.body = b""
        # Of the body, and of what a patch copies.
        self.most_bytes = MOST_BODY_BYTES
        # What the client is told beside the answer, also where that is a refusal; kubectl prints it.
        self.warnings: list[str] = []
        self.user: User = ANONYMOUS
        self._problem: ApiError | None = None
        self.target: Target | None = None
        try:
            self.target = parse_path(path)
        except ApiError as error:
            self._problem = error
        self.verb = self._verb()

    def resolve(self) -> None:
        """Raise what is wrong with the path; only after authorization, so that a 404 tells nothing to other clients."""
        if self._problem is not None:
            raise self._problem

    @property
    def is_unknown(self) -> bool:
        """Whether its path names what a group that is served does not have."""
        return self._problem is not None

    def parameter(self, name: str) -> str:
        """The first value, or an empty text."""
        values = self.parameters.get(name)
        return values[0] if values else ""

    def is_set(self, name: str) -> bool:
        """Whether a parameter says yes."""
        return name in self.parameters and is_yes(self.parameter(name))

    @property
    def wants_indentation(self) -> bool:
        """Whether a person is going to read the answer, by its user agent or its query."""
        if not self.parameters and not self.agent.startswith(_PEOPLE):
            return False
        wish = self.parameter("pretty")
        return wish in _TRUE if wish else self.agent.startswith(_PEOPLE)

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream of changes."""
        return self.verb == "watch"

    @property
    def is_cut_off(self) -> bool:
        """Whether the path ends with a verb of old, before what it is about. Kubernetes refuses it unauthenticated."""
        return _CUT_OFF.fullmatch(self.path) is not None

    def _verb(self) -> str:
        if self.target is None:
            return self.method.lower()
        if self.target.is_watched:
            return "watch"  # whatever the method, which is refused later
        if self.target.name:
            return _ITEM_VERBS.get(self.method, "")
        verb = _COLLECTION_VERBS.get(self.method, "")
        return "watch" if verb == "list" and self.is_set("watch") else verb

    @property
    def access(self) -> Access:
        """For authorization. A list that selects one object by its name is judged as a read of that object."""
        target = self.target
        if target is None:
            return Access(self.verb, path=self.path)
        resource, name, selector = target.resource, target.name, _NO_SELECTOR
        # The older paths of watches do not know of this: Kubernetes takes no selector into account there.
        if self.verb in ("list", "watch") and not target.is_watched and "fieldSelector" in self.parameters:
            selector = _field_selector(self.parameter("fieldSelector"))
            name = _one_name(selector)
        return Access(
            self.verb or self.method.lower(),
            resource.group,
            resource.plural,
            target.subresource,
            name if resource is NAMESPACES else target.namespace,
            name,
            selector=selector,
        )


def _field_selector(text: str) -> FieldSelector:
    """A selector that cannot be parsed counts as none here; the list itself refuses it."""
    try:
        return parse_field_selector(text)
    except InputError:
        return _NO_SELECTOR


def _one_name(selector: FieldSelector) -> str:
    found = (term.value for term in selector.terms if term.field == "metadata.name" and not term.is_negated)
    name = next(found, "")
    return "" if list(path_segment_name(name)) else name


def parse_path(path: str) -> Target | None:
    """What a path names; None for a path that names no objects.

    Raises 404 for a resource that is not served, in the form that clients expect inside a version that is.
    """
    if not path.startswith("/"):
        return None  # the asterisk of `OPTIONS *`
    parts = path.split("/")
    if parts[1] == "api" and len(parts) > 3:
        group, version, rest = "", parts[2], parts[3:]
    elif parts[1] == "apis" and len(parts) > 4:
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    if (group, version) not in _KNOWN_VERSIONS:
        if group in ABSENT or any(group == known for known, _ in _KNOWN_VERSIONS):
            raise unknown_resource(group, rest[2] if rest[0] == NAMESPACES.plural and rest[2:] else rest[0])
        return None
    return _parse_rest(group, version, rest) if any(rest) else None


def _parse_rest(group: str, version: str, rest: list[str]) -> Target:
    if rest[0] == _WATCH and len(rest) > 1 and rest[1] not in ("", _WATCH):
        watched = _parse_rest(group, version, rest[1:])
        if watched.subresource or _WATCH not in watched.resource.verbs:
            raise unknown_path()
        return watched._replace(is_watched=True)
    # Behind `proxy` is a path of another server's, whatever it looks like. Elsewhere slashes at the end mean nothing.
    steps = _steps_to_proxy(group, rest) if _PROXY in rest else 0
    while not steps and not rest[-1]:
        rest = rest[:-1]
    if "" in (rest[:steps] if steps else rest):
        return _parse_gap(group, version, rest)
    namespace = ""
    is_core_namespace = rest[0] == "namespaces" and not group
    if rest[0] == "namespaces" and len(rest) > 2 and not (is_core_namespace and _is_namespace_part(rest)):
        namespace, rest = rest[1], rest[2:]
    resource = find_resource(group, version, rest[0])
    if steps and resource is not None:
        return Target(resource, namespace, rest[1], _PROXY, "".join(f"/{each}" for each in rest[3:]))
    if resource is None:
        raise unknown_resource(group, rest[0])
    if len(rest) > 3 or (namespace and not resource.is_namespaced):
        raise unknown_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and resource.subresource(subresource) is None:
        raise unknown_path()
    if resource.is_namespaced and name and not namespace:
        raise unknown_path()
    return Target(resource, namespace, name, subresource)


def _parse_gap(group: str, version: str, rest: list[str]) -> Target:
    """A path in which a namespace or a name is empty. Without a namespace a collection is that of all of them."""
    lacks_namespace = False
    if rest[0] == NAMESPACES.plural and (group or not _is_namespace_part(rest)):
        lacks_namespace, rest = rest[1] == "", rest[2:]
    resource = find_resource(group, version, rest[0]) if rest else None
    if resource is None:
        raise unknown_path()
    if lacks_namespace and resource.is_namespaced and len(rest) == 1:
        return Target(resource)
    part = rest[2] if len(rest) == 3 or rest[2:3] == [_PROXY] else ""
    is_part = bool(part) and resource.subresource(part) is not None
    if lacks_namespace and resource.is_namespaced and rest[1] and (is_part or len(rest) == 2):
        raise bad_request("Namespace parameter required.")
    if not lacks_namespace and rest[1:2] == [""] and is_part:
        raise bad_request("name must be provided")
    raise unknown_path()


def _steps_to_proxy(group: str, rest: list[str]) -> int:
    """How many steps name what is proxied, with the `proxy` behind them; 0 where nothing is."""
    if group:
        return 0
    if rest[0] == NODES.plural:
        return 3 if rest[2:3] == [_PROXY] else 0
    is_proxied = rest[0] == NAMESPACES.plural and rest[2:3] and rest[2] in (PODS.plural, SERVICES.plural)
    return 5 if is_proxied and rest[4:5] == [_PROXY] else 0


def _is_namespace_part(rest: list[str]) -> bool:
    """Whether `namespaces/x/y` means a part of the namespace rather than a collection in it."""
    return len(rest) == 3 and NAMESPACES.subresource(rest[2]) is not None


def method_not_allowed(why: str = "") -> ApiError:
    """405."""
    message = why or "the server does not allow this method on the requested resource"
    return ApiError(message, code=405, reason="MethodNotAllowed", details={})


@frozen
class WriteOptions:
    """Checked options of a create, update or patch."""

    dry_run: tuple[str, ...]
    validation: str
    manager: str

    @property
    def is_dry_run(self) -> bool:
        """Whether everything is to happen but the write."""
        return bool(self.dry_run)


_NO_OPTIONS: Final = WriteOptions((), "", "")


def write_options(request: Request, kind: str) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions: the complaint names it."""
    if not request.parameters:
        return _NO_OPTIONS
    options = _read(request)
    if mistakes := list(_mistakes(options)):
        raise invalid_options(kind, mistakes)
    return options


def _read(request: Request) -> WriteOptions:
    return WriteOptions(
        tuple(request.parameters.get("dryRun", ())),
        request.parameter("fieldValidation"),
        request.parameter("fieldManager"),
    )


def patch_options(request: Request, *, is_apply: bool) -> WriteOptions:
    """An apply must name its field manager; `force` is for applies only."""
    options = _read(request)
    mistakes = list(_mistakes(options))
    if is_apply and not options.manager:
        mistakes.insert(0, required("fieldManager", "is required for apply patch"))
    if not is_apply and "force" in request.parameters:
        mistakes.insert(0, forbidden("force", "may not be specified for non-apply patch"))
    if mistakes:
        raise invalid_options("PatchOptions", mistakes)
    return options


def _mistakes(options: WriteOptions) -> Iterable[Mistake]:
    manager = options.manager.encode("utf-8", "replace")
    if len(manager) > _LONGEST_MANAGER:
        yield too_long("fieldManager", _LONGEST_MANAGER)
    at = 0
    for char in options.manager:
        if not char.isprintable():
            why = f"invalid character U+{ord(char):04X} (at position {at})"
            yield invalid("fieldManager", options.manager, why)
        at += len(char.encode("utf-8", "replace"))
    yield from dry_run_mistakes(options.dry_run)
    if options.validation not in _VALIDATIONS:
        yield unsupported("fieldValidation", options.validation, _VALIDATIONS)


def dry_run_mistakes(dry_run: Iterable[str]) -> Iterable[Mistake]:
    """`All` is the only value."""
    listed = list(dry_run)
    if any(each != DRY_RUN_ALL for each in listed):
        text = f'Unsupported value: {shown(listed)}: supported values: "{DRY_RUN_ALL}"'
        yield Mistake("dryRun", "FieldValueNotSupported", text)


def invalid_options(kind: str, mistakes: Iterable[Mistake]) -> ApiError:
    """422 about the options of a request."""
    return refusal("meta.k8s.io", kind, "", mistakes)


def integer(request: Request, name: str) -> int | None:
    """A number in the query; 400 for something else, and an empty text is something else."""
    if name not in request.parameters:
        return None
    try:
        return atoi(request.parameter(name))
    except InputError as error:
        raise bad_request(str(error).replace("strconv.Atoi", "strconv.ParseInt", 1)) from error


def timeout_seconds(request: Request) -> float | None:
    """How long the client is going to wait; None if it does not say."""
    if not (text := request.parameter("timeout")):
        return None
    try:
        return parse_duration(text) / 10**9
    except InputError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from error


def boolean(request: Request, name: str) -> bool | None:
    """A yes or no in the query."""
    if name not in request.parameters:
        return None
    return is_yes(request.parameter(name))
