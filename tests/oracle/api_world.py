"""A scenario under way: its own namespace, the recorded steps still to play, and hands to prepare what they expect."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from api_masking import Mask, differences, like, now_text

Json = dict[str, Any]

MERGE = {"Content-Type": "application/merge-patch+json"}
_HEADERS = ("Retry-After", "Warning", "Allow", "Content-Type")


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        try:
            return json.loads(self.content)
        except ValueError:
            return {"<text>": self.content.decode()[:300]}


class Client:
    """Plain HTTP, one connection per thread."""

    def __init__(self, url: str, token: str, authority: str | None) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 443)
        self._context = ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
        self.token = token
        self._local = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def connect(self) -> http.client.HTTPConnection:
        if self._context is None:
            connection = http.client.HTTPConnection(*self._address, timeout=60)
        else:
            connection = http.client.HTTPSConnection(*self._address, timeout=60, context=self._context)
        self._opened.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def headers(self, given: dict[str, str] | None, token: str | None) -> dict[str, str]:
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        return {"Accept": "application/json", **bearer, **(given or {})}

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str] | None, token: str | None
    ) -> Reply:
        for attempt in (1, 2):
            connection = getattr(self._local, "connection", None) or self.connect()
            self._local.connection = connection
            try:
                connection.request(method, path, body, self.headers(headers, token))
                answer = connection.getresponse()
                found = {name: ", ".join(answer.headers.get_all(name, [])) for name in answer.headers}
                return Reply(answer.status, found, answer.read())
            except (http.client.HTTPException, ConnectionError):
                self._local.connection = None
                if attempt == 2:
                    raise
        raise AssertionError


class World:
    """What a scenario can do."""

    def __init__(self, client: Client, namespace: str, steps: list[Json]) -> None:
        self.client = client
        self.namespace = namespace
        self.mask = Mask(namespace)
        self.findings: list[tuple[str, str, Any, Any]] = []
        self._steps = list(steps)
        self._nodes: list[str] = []
        self.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    # The recorded steps.

    def play(self, until: str | None = None, **instead: Any) -> Any:
        """Play steps up to and with that label, or all; `instead` replaces parts of the last one's request."""
        reply = None
        while self._steps:
            step = self._steps.pop(0)
            is_last = step["label"] == until
            if "request" not in step:
                raise AssertionError(f"`{step['label']}` is an observation, the setup has to make it")
            reply = self._play(step, instead if is_last else {})
            if is_last:
                return reply.body
        assert until is None, f"no step `{until}`"
        return None if reply is None else reply.body

    def note(self, label: str, value: Any) -> None:
        """Make an observation that was recorded as a value."""
        step = self._steps.pop(0)
        assert step["label"] == label, f"`{step['label']}` comes before `{label}`"
        self._compare(label, step["value"], self.mask.value(value))

    def observe(self, label: str, body: Any) -> None:
        """Make an observation that was recorded as the answer to a request, of which only this was kept."""
        step = self._steps.pop(0)
        assert step["label"] == label, f"`{step['label']}` comes before `{label}`"
        self._compare(label, step["response"]["body"], self.mask.value(body))

    def _play(self, step: Json, instead: Json) -> Reply:
        request = {**self.mask.unmask(step["request"]), **instead}
        body, data = request["body"], None
        if isinstance(body, dict) and "<data>" in body:
            data = body["<data>"].encode()
        elif body is not None:
            data = json.dumps(body).encode()
        headers = dict(request["headers"] or {})
        if isinstance(body, dict | list) and data is not None and "<data>" not in body:
            headers.setdefault("Content-Type", "application/json")
        reply = self.raw(
            request["method"],
            request["path"],
            data,
            request["params"],
            headers,
            request.get("token", self.client.token),
        )
        shown = {name: self.mask.text(reply.headers[name]) for name in _HEADERS if name in _titled(reply.headers)}
        recorded = step["response"]
        body = like(recorded["body"], self.mask.value(reply.body))
        for key, value in recorded["body"].items():
            if value == "<set>" and body.get(key) not in (None, "<absent>"):
                body[key] = "<set>"
        self._compare(step["label"], recorded, {"code": reply.code, "headers": shown, "body": body})
        return reply

    def _compare(self, label: str, expected: Any, found: Any) -> None:
        self.findings += [(label, path, one, two) for path, one, two in differences(expected, found)]

    # Hands.

    def raw(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        params: Json | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = "",
    ) -> Reply:
        query = f"?{urlencode(params)}" if params else ""
        reply = self.client.ask(method, path + query, data, headers, self.client.token if token == "" else token)
        return Reply(reply.code, _titled(reply.headers), reply.content)

    def must(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if body is not None else {}
        reply = self.raw(method, path, data, headers={**kind, **(headers or {})})
        assert reply.code < 300, f"{method} {path}: {reply.code} {reply.content!r}"
        return reply.body

    def pods(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods" + (f"/{name}" if name else "")

    def budgets(self, name: str = "") -> str:
        return f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets" + (f"/{name}" if name else "")

    def apps(self, path: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{path}"

    def node(self, suffix: str = "n1") -> str:
        name = f"{self.namespace}-{suffix}"
        self.must("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        self._nodes.append(name)
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
        ready |= {"lastHeartbeatTime": now_text(), "lastTransitionTime": now_text()}
        status = {"conditions": [ready], "capacity": amounts, "allocatable": amounts}
        self.must("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)
        # A new node is marked as not ready, and a controller, where one runs, takes that back when it looks again. Pods
        # that come before would be chased away.
        self.must("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)
        self.wait(lambda: not self.must("GET", f"/api/v1/nodes/{name}")["spec"].get("taints"), 10)
        return name

    def pod(self, name: str, *, ready: bool | None = True, phase: str | None = "Running", **parts: Any) -> Json:
        """On the first node unless `node` says otherwise; without a phase its status is not written."""
        labels, owner = parts.pop("labels", {"app": "web"}), parts.pop("owner", None)
        node = parts.pop("node", self._nodes[0] if self._nodes else "")
        metadata: Json = {"name": name, "labels": labels}
        if "finalizers" in parts:
            metadata["finalizers"] = parts.pop("finalizers")
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        spec: Json = {"containers": [{"name": "c", "image": "registry.example/app:1"}], **parts}
        if node:
            spec["nodeName"] = node
        created: Json = self.must("POST", self.pods(), {"metadata": metadata, "spec": spec})
        if phase is not None:
            self.status(name, phase, ready)
        return created

    def status(self, name: str, phase: str = "Running", ready: bool | None = True, **more: Any) -> None:
        conditions = (
            [{"type": "Ready", "status": str(ready), "lastTransitionTime": now_text()}] if ready is not None else []
        )
        status = {"phase": phase, "conditions": conditions, "startTime": now_text(), **more}
        self.must("PATCH", f"{self.pods(name)}/status", {"status": status}, MERGE)

    def budget(self, name: str = "pdb", spec: Json | None = None, *, is_awaited: bool = True, **more: Any) -> None:
        """A budget over `app: web`, with the controller's first numbers unless no controller computes them."""
        spec = {**(spec or {}), **more}
        spec.setdefault("selector", {"matchLabels": {"app": "web"}})
        if spec["selector"] is None:
            del spec["selector"]
        self.must("POST", self.budgets(), {"metadata": {"name": name}, "spec": spec})
        if is_awaited:
            self.settle(name)

    def settle(self, name: str = "pdb", **numbers: Any) -> None:
        """Wait until the budget's numbers are these, belong to its generation and stay for half a second."""
        seen: list[str] = []

        def is_settled() -> bool:
            found = self.must("GET", self.budgets(name))
            status = found["status"]
            seen.append(json.dumps(status, sort_keys=True))
            is_current = status.get("observedGeneration") == found["metadata"]["generation"]
            is_wanted = all(status.get(key) == value for key, value in numbers.items())
            return is_current and is_wanted and len(seen) >= 5 and len(set(seen[-5:])) == 1

        self.wait(is_settled, 15)

    def set_budget(self, name: str = "pdb", **status: Any) -> None:
        """Write the numbers by hand: no controller computes them now."""
        numbers = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1}
        whole = {**numbers, "observedGeneration": 1, "disruptedPods": {}, **status}
        self.must("PATCH", f"{self.budgets(name)}/status", {"status": whole}, MERGE)

    def wait(self, is_true: Callable[[], object], seconds: float = 15) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if is_true():
                return True
            time.sleep(0.1)
        return False

    def watch(self, path: str, seconds: int, **params: Any) -> Callable[[], list[Json]]:
        """Begin to watch; the answer waits for its end and gives the events, bookmarks left out."""
        connection = self.client.connect()
        query = urlencode({**params, "watch": "true", "timeoutSeconds": str(seconds)})
        connection.request("GET", f"{path}?{query}", headers=self.client.headers(None, self.client.token))
        answer = connection.getresponse()

        def finish() -> list[Json]:
            events = [json.loads(line) for line in answer.read().splitlines() if line]
            connection.close()
            return [event for event in events if event["type"] != "BOOKMARK"]

        return finish

    def clean_up(self) -> None:
        for pod in self.raw("GET", self.pods()).body.get("items", ()):
            if pod["metadata"].get("finalizers"):
                self.must("PATCH", self.pods(pod["metadata"]["name"]), {"metadata": {"finalizers": None}}, MERGE)
        now = json.dumps({"gracePeriodSeconds": 0}).encode()
        for collection in ("deployments", "replicasets", "statefulsets"):
            self.raw("DELETE", self.apps(collection), now)
        self.raw("DELETE", self.pods(), now)
        for node in self._nodes:
            self.raw("DELETE", f"/api/v1/nodes/{node}")
        self.raw("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def forget_node(self, name: str) -> None:
        """Have a node that a step made removed at the end."""
        self._nodes.append(name)


def _titled(headers: dict[str, str]) -> dict[str, str]:
    return {"-".join(part.capitalize() for part in name.split("-")): value for name, value in headers.items()}
