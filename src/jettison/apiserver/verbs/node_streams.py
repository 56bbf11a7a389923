"""exec, attach, portforward of pods, and `proxy` of nodes: the API server checks the request, and the node answers it.

A request for another protocol (SPDY/3.1 or WebSocket) is passed on as it is. Once the node has agreed, bytes are
carried both ways (`tunnels`). What a client may have of this at once is counted by `limits`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jettison.apiserver.access.authorization import Authorizer
from jettison.apiserver.connections.limits import Receive, Scope, Send
from jettison.apiserver.http.presenting import Response
from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.resources import NODES, PODS
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.container_logs import containers_of, only_container
from jettison.apiserver.verbs.node_client import (
    NodeClient,
    NodeQuestion,
    node_path,
    refusal_of,
    unavailable,
)
from jettison.apiserver.verbs.tunnels import pass_on, read_passed, split_name, tunnel, upgrade_headers
from jettison.engine.numbers.strconv import parse_uint
from jettison.errors import InputError

STREAMS: Final = frozenset({"exec", "attach", "portforward"})

_HIGHEST_PORT: Final = 65_535
# The kubelet's names for what the API calls stdin, stdout, stderr.
_CHANNELS: Final = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))


class NodeStreams:
    """The handler. Without `nodes` no node can be asked."""

    def __init__(self, store: Store, authorizer: Authorizer, nodes: NodeClient | None) -> None:
        self._store = store
        self._authorizer = authorizer
        self._nodes = nodes

    async def serve(
        self, request: Request, target: Target, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Until both sides have gone; None if the answer was streamed. Raises ApiError before it begins."""
        is_proxied = target.subresource == "proxy"
        # What is wrong with the pod is said first.
        question = None if is_proxied else self._streamed(request, target)
        if self._nodes is None:
            raise unavailable("no node of this server can be asked")
        wanted = upgrade_headers(scope)
        if question is None:
            question = self._proxied(request, target)
            if not wanted:
                question = replace(question, body=await read_passed(request, scope, receive))
                wanted = [("content-type", request.content_type)] if question.body and request.content_type else ()
        elif not wanted:
            self._nodes.check_address(question.node, question.about)
            raise bad_request("Upgrade request required")
        async with self._nodes.ask(replace(question, headers=wanted, lasts=True)) as answer:
            if answer.status == 101:
                await tunnel(answer, scope, receive)
                return None
            if not is_proxied:
                raise await refusal_of(question.node, answer)
            await pass_on(answer, request.method, receive, send)
            return None

    def _proxied(self, request: Request, target: Target) -> NodeQuestion:
        """`[https:]NAME[:PORT]`: of a node only the kubelet's port is asked, under both spellings."""
        assert self._nodes is not None
        scheme, name, port = split_name(target.name, "node")
        if self._store.get(NODES, "", name) is None:
            raise not_found(NODES, target.name)
        if scheme not in ("", "https") or (port and port != str(self._nodes.kubelet_port(name))):
            raise bad_request(f"of node {name} only its own port is asked, over https: /api/v1/nodes/{name}/proxy/")
        parameters = tuple((key, value) for key, values in request.parameters.items() for value in values)
        path = node_path(*target.rest.split("/")[1:]) or "/"
        return NodeQuestion(name, path, parameters, request.method)

    def _streamed(self, request: Request, target: Target) -> NodeQuestion:
        # A WebSocket begins with GET, and what it does is no reading.
        self._authorizer.check(request.user, request.access._replace(verb="create"))
        ports = _ports(request) if target.subresource == "portforward" else []
        found = self._store.get(PODS, target.namespace, target.name)
        if found is None:
            raise not_found(PODS, target.name)
        pod = found.object
        names, parameters = (target.namespace, target.name), [("uid", str(found.metadata["uid"]))]
        if target.subresource == "portforward":
            path = node_path("portForward", *names)
            parameters += [("port", each) for each in ports]
        else:
            container = request.parameter("container") or only_container(pod)
            if container not in containers_of(pod):
                raise bad_request(f"container {container} is not valid for pod {target.name}")
            path = node_path(target.subresource, *names, container)
            parameters += [(theirs, "1") for ours, theirs in _CHANNELS if request.is_set(ours)]
            parameters += [("command", each) for each in request.parameters.get("command", ())]
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        return NodeQuestion(pod["spec"]["nodeName"], path, parameters, request.method, about=PODS)


def _ports(request: Request) -> list[str]:
    listed = [each for value in request.parameters.get("ports", ()) for each in value.split(",")]
    for each in listed:
        try:
            parse_uint(each, _HIGHEST_PORT)
        except InputError as error:
            raise bad_request(f"cannot convert to []int32: {error}") from error
    return listed
