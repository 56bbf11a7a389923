"""Random request sequences that kube-apiserver v1.36.4 answered, put to an application without a socket.

A line of `data/api-random.json.gz` is a namespace, its requests, and the answer to each, masked. A request names what
an earlier answer has told as `{{uid:Pod/p0}}`; one with `edit` reads an object, changes it at some paths and sends it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.apiserver.served import Answer, Served

Json = dict[str, Any]

RECORDED = Path(__file__).parent / "data" / "api-random.json.gz"
ABSENT = "<nothing>"

_MASKS = (
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d(?: UTC)?)", "<time>"),
    (r"(in record \()\d+(\))", r"\1<rv>\2"),
    (r"(too old resource version: )\d+ \(\d+\)", r"\1<rv> (<rv>)"),
    (r"(in precondition: |in object meta: |Too large resource version: |, current: )\d+", r"\1<rv>"),
    (r"(ResourceVersion in the precondition \()\d+(\))", r"\1<rv>\2"),
    (r'resourceVersion: "?\d+"?', "resourceVersion: <rv>"),
    (r"\(\d+s ago\)", "(<age> ago)"),
    # A patch that makes nonsense of an object is refused with the whole object, and its version with it.
    (r'(patch: Invalid value: |^Invalid value: )"\{.*\}"(: )', r"\1<object>\2"),
)
_AGE = re.compile(r"(\d+[smhdy])+|<unknown>|<invalid>")


def recorded() -> Iterator[Json]:
    for line in gzip.decompress(RECORDED.read_bytes()).splitlines():
        yield json.loads(line)


class Player:
    """Plays one sequence, and remembers what its answers told."""

    def __init__(self, api: Served) -> None:
        self._api = api
        self._known: dict[str, tuple[str, str]] = {}
        self._stale: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._mark = self._more = ""

    async def play(self, sequence: Json) -> list[str]:
        """Where the answers differ from Kubernetes'."""
        findings = []
        for index, (step, expected) in enumerate(zip(sequence["ops"], sequence["expected"], strict=True)):
            found = await self._answer(step)
            findings += [
                f"{sequence['id']} [{index}] {step['op']} {path}: {str(want)[:300]} | here: {str(have)[:300]}"
                for path, want, have in differences(self.masked(expected), found)
            ]
        return findings

    async def _answer(self, step: Json) -> Json:
        answer = await self._ask(step)
        if answer is None:
            return {"code": 0, "body": "no base"}
        headers = {"Content-Type": answer.headers.get("content-type", "")}
        for name in ("Retry-After", "Warning", "Allow"):
            if name.lower() in answer.headers:
                headers[name] = self._text(answer.headers[name.lower()])
        body: Any
        if step.get("watch") and answer.code == 200:
            body = [_bookmarked(json.loads(line)) for line in answer.content.splitlines() if line.strip()]
            if step.get("nobook"):
                body = [
                    each for each in body if each["type"] != "BOOKMARK" or each["object"]["metadata"]["annotations"]
                ]
        else:
            try:
                body = answer.body
            except ValueError:
                return {
                    "code": answer.code,
                    "headers": headers,
                    "body": {"<text>": self._text(answer.content.decode())},
                }
            self._remember(step, body)
        return {"code": answer.code, "headers": headers, "body": self.masked(body)}

    async def _ask(self, step: Json) -> Answer | None:
        headers = {"accept": "application/json", "content-type": "application/json"}
        body: Any = None
        if "edit" in step:
            answer = await self._api.ask("GET", self._filled(step["base"]), content_type=None)
            if answer.code != 200:
                return None
            body = answer.body
            for path, value in step["edit"]:
                _put(body, path.split("/"), self._filled(value))
        elif "data" in step:
            body = self._filled(step["data"]).encode()
        elif "body" in step:
            body = self._filled(step["body"])
        else:
            del headers["content-type"]
        headers |= {key.lower(): value for key, value in (step.get("headers") or {}).items() if value is not None}
        for key, value in (step.get("headers") or {}).items():
            if value is None:
                headers.pop(key.lower(), None)
        parameters = self._filled(step.get("params") or {})
        if "watch" in step:
            # All that is waited for has happened before; a busy machine gets twice the time to tell it.
            parameters["timeoutSeconds"] = 2 * int(parameters["timeoutSeconds"])
        return await self._api.ask(
            step["method"],
            self._filled(step["path"]),
            body,
            query=urlencode(parameters),
            content_type=headers.pop("content-type", None),
            accept=headers.pop("accept"),
            token="" if step.get("token") == "none" else "admin",
            headers=headers,
        )

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return re.sub(r"\{\{(\w+):?([^}]*)\}\}", self._told, value) if isinstance(value, str) else value

    def _told(self, reference: re.Match[str]) -> str:
        word, name = reference.groups()
        uid, version = self._known.get(name, ("00000000-0000-0000-0000-000000000000", "1"))
        match word:
            case "now":
                return (self._now() + timedelta(seconds=int(name))).strftime("%Y-%m-%dT%H:%M:%SZ")
            case "name":
                return self._names.get(name, "no-such")
            case "oldrv":
                return self._stale.get(name, "1")
        return {"uid": uid, "rv": version, "rv0": self._mark or "0", "cont": self._more}[word]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._api.clock.seconds, UTC)

    def _remember(self, step: Json, body: Any) -> None:
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(metadata, dict) or body.get("kind") == "Status":
            return
        if body["kind"].endswith("List"):
            self._more = metadata.get("continue") or self._more
            if step.get("mark"):
                self._mark = metadata["resourceVersion"]
        elif metadata.get("uid"):
            key = f"{body['kind']}/{metadata['name']}"
            if step.get("genvar"):
                self._names[step["genvar"]] = metadata["name"]
            if key in self._known:
                self._stale[key] = self._known[key][1]
            self._known[key] = (metadata["uid"], metadata.get("resourceVersion", "1"))

    def _text(self, text: str) -> str:
        for key, name in self._names.items():
            text = text.replace(name, f"<{key}>")
        return _masked_text(text)

    def masked(self, value: Any, key: str = "") -> Any:
        """Without what differs from run to run. Recorded answers are masked already, and stay what they are."""
        if isinstance(value, dict):
            return {
                self._text(name): self._masked_item(value, name, item, key)
                for name, item in value.items()
                if name not in ("managedFields", "selfLink")
                and not (name == "description" and key == "columnDefinitions")
            }
        if isinstance(value, list):
            return [self.masked(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key == "resourceVersion":
            return "<rv>" if value.isdigit() and value != "0" else value
        return "<continue>" if key == "continue" and value else self._text(value)

    def _masked_item(self, holder: Json, name: str, item: Any, key: str) -> Any:
        if name == "deletionTimestamp" and isinstance(item, str) and "deletionGracePeriodSeconds" in holder:
            if item.startswith("<"):
                return item
            left = (datetime.fromisoformat(item) - self._now()).total_seconds()
            return "<now+grace>" if left == holder["deletionGracePeriodSeconds"] else "<time>"
        if name == "cells" and isinstance(item, list):
            return ["<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else self.masked(cell) for cell in item]
        return self.masked(item, name)


@cache
def _masked_text(text: str) -> str:
    """Remembered, because most are names of fields: nine patterns for each would be most of the whole run."""
    for pattern, masked in _MASKS:
        text = re.sub(pattern, masked, text, flags=re.DOTALL)
    return text


def _bookmarked(event: Json) -> Json:
    """A bookmark without its version, which says nothing here."""
    if event["type"] != "BOOKMARK":
        return event
    thing = event["object"]
    annotations = {"metadata": {"annotations": thing.get("metadata", {}).get("annotations")}}
    return {**event, "object": {**{key: thing[key] for key in ("kind", "apiVersion") if key in thing}, **annotations}}


def _put(thing: Any, path: list[str], value: Any) -> None:
    step: Any = int(path[0]) if isinstance(thing, list) and path[0] != "-" else path[0]
    if len(path) > 1:
        if isinstance(thing, dict) and thing.get(step) is None:
            thing[step] = {}
        _put(thing[step], path[1:], value)
    elif step == "-":
        thing.append(value)
    elif value != "<del>":
        thing[step] = value
    elif isinstance(thing, list) or step in thing:
        del thing[step]


def differences(one: Any, two: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            yield from differences(one.get(key, ABSENT), two.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, pair in enumerate(zip(one, two, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif one != two or type(one) is not type(two):
        yield path, one, two
