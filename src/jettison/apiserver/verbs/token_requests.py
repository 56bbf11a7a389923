"""`serviceaccounts/NAME/token`: a token for a service account, bound to a pod, a secret or a node, or to none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.access.account_tokens import AUDIENCE, AccountTokens
from jettison.apiserver.http.bodies import Expected, create_options, read_object
from jettison.apiserver.http.forms import form_of
from jettison.apiserver.http.presenting import Response, show_document
from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, refusal
from jettison.apiserver.objects.writing import check_namespace
from jettison.apiserver.verbs.rest import Objects
from jettison.engine.numbers.strconv import quote
from jettison.errors import Conflict
from jettison.manifests.times import time_text

Json = dict[str, Any]

REQUEST: Final = Expected("TokenRequest", ("authentication.k8s.io/v1",), "TokenRequest")
_GROUP: Final = "authentication.k8s.io"
_SECOND_NS: Final = 10**9
_USUAL_SECONDS: Final = 3600
_LEAST_SECONDS, _MOST_SECONDS = 600, 2**32

_BINDABLE: Final = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}


class TokenRequests:
    """The handler."""

    def __init__(self, objects: Objects, tokens: AccountTokens) -> None:
        self._objects = objects
        self._tokens = tokens

    async def create(self, request: Request, target: Target) -> Response:
        """POST of a request; the answer is the request with the token in its status."""
        form_of(request, has_table=False)
        options = create_options(request)
        asked = read_object(request, REQUEST, options.validation)
        check_namespace(asked["metadata"], target.namespace)
        self._objects.authorizer.check_token(request.user, request.access, asked["spec"])
        metadata = _matching(asked["metadata"], target)
        found = self._objects.store.head(SERVICE_ACCOUNTS, target.namespace, target.name)
        if found is None:
            raise not_found(SERVICE_ACCOUNTS, target.name)
        account = found.object
        given = metadata.get("uid", account["metadata"]["uid"])
        if given != account["metadata"]["uid"]:
            own = account["metadata"]["uid"]
            why = f"the UID in the token request ({given}) does not match the UID of the service account ({own})"
            raise _mismatch(_GROUP, "TokenRequest", target.name, why)
        spec = _spec(asked["spec"])
        if mistakes := list(_mistakes(spec)):
            raise refusal(_GROUP, "TokenRequest", "", mistakes)
        bound = self._bound(target, spec.get("boundObjectRef"))
        now_ns = self._objects.clock.now_ns()
        token = self._tokens.issue(account, spec["audiences"], spec["expirationSeconds"], bound)
        answer = {
            "kind": REQUEST.kind,
            "apiVersion": REQUEST.api_versions[0],
            "metadata": {
                **metadata,
                "name": target.name,
                "namespace": target.namespace,
                "uid": account["metadata"]["uid"],
                "creationTimestamp": time_text(now_ns),
            },
            "spec": spec,
            "status": {
                "token": token,
                "expirationTimestamp": time_text(now_ns + spec["expirationSeconds"] * _SECOND_NS),
            },
        }
        return show_document(request, _GROUP, answer, 201)

    def _bound(self, target: Target, reference: Json | None) -> dict[str, Json]:
        """The metadata of what the token is bound to, and of the node that a pod is on."""
        if reference is None:
            return {}
        version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
        resource = _BINDABLE.get(kind) if "/" not in version else None
        if resource is None:
            group, _, named = version.rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{named}, Kind={kind}")
        value = self._read(resource, target.namespace, reference.get("name", ""))
        bound = {kind.lower(): value["metadata"]}
        if resource is PODS:
            if value["spec"].get("serviceAccountName", "") != target.name:
                what = f"serviceaccount {quote(target.name)}"
                raise bad_request(f"cannot bind token for {what} to pod running with different serviceaccount name.")
            if node := value["spec"].get("nodeName"):
                found = self._objects.store.head(NODES, "", node)
                bound["node"] = {"name": node} if found is None else found.metadata
        given = reference.get("uid", "")
        if given not in ("", value["metadata"]["uid"]):
            why = f"the UID in the bound object reference ({given}) does not match the UID in record. "
            why += "The object might have been deleted and then recreated"
            raise _mismatch("", kind, reference.get("name", ""), why)
        return bound

    def _read(self, resource: Resource, namespace: str, name: str) -> Json:
        found = self._objects.store.head(resource, namespace if resource.is_namespaced else "", name)
        if found is None:
            raise not_found(resource, name)
        value: Json = found.object
        return value


def _matching(metadata: Json, target: Target) -> Json:
    given = metadata.get("name", "")
    if given not in ("", target.name):
        mistake = invalid("metadata.name", given, "must match the service account name if specified")
        raise refusal(_GROUP, "TokenRequest", target.name, [mistake])
    return metadata


def _spec(spec: Json) -> Json:
    return {
        **spec,
        "audiences": spec.get("audiences") or [AUDIENCE],
        "expirationSeconds": spec.get("expirationSeconds", _USUAL_SECONDS),
        "boundObjectRef": spec.get("boundObjectRef"),
    }


def _mistakes(spec: Json) -> Iterator[Mistake]:
    seconds, where = spec["expirationSeconds"], "spec.expirationSeconds"
    if seconds < _LEAST_SECONDS:
        yield invalid(where, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST_SECONDS:
        yield invalid(where, seconds, "may not specify a duration larger than 2^32 seconds")


def _mismatch(group: str, kind: str, name: str, why: str) -> Conflict:
    details = {"name": name, "group": group, "kind": kind} if group else {"name": name, "kind": kind}
    qualified = f"{kind}.{group}" if group else kind
    return Conflict(f"Operation cannot be fulfilled on {qualified} {quote(name)}: {why}", details=details)
