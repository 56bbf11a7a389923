"""Names out of a recording: the same name always becomes the same number, and nothing tells which it was.

Node, namespaces, pods, uids, containers, volumes, priority classes and tolerated taints get numbers in the order in
which they appear. Classes and keys of Kubernetes itself stay, because decisions depend on them. Free texts (why a look
failed, what a container said at its end) are left out. Equal pods are told apart by their names in the last place, so a
tie may be decided otherwise than it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jettison.agent.journal.tape import Line
from jettison.engine.config.kubelet_fields import FIELDS, Kind

_PUBLIC = ("system-cluster-critical", "system-node-critical", "")
_OF_KUBERNETES = ("kubernetes.io/", "k8s.io/")
HIDDEN = "hidden"

# Names of cgroups and processors; no decision depends on them.
_TEXTS = frozenset(name for row in FIELDS if row.kind is Kind.TEXT for name in (row.key, row.attribute))


class Anonymiser:
    """Of one recording."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def line(self, line: Line) -> Line | None:
        """The same without names; None for one that is left out."""
        match line["k"]:
            case "begin":
                history = {**line["history"], "node": self._name("node", line["history"].get("node") or "")}
                node = self._name("node", line["node"])
                return {**line, "node": node, "history": history, "policy": self._policy(line)}
            case "policy":
                return {**line, "policy": self._policy(line)}
            case "pod":
                return {**line, "pod": self._pod(line["pod"])}
            case "look":
                return self._look(line)
            case "failed":
                return {**line, "why": HIDDEN}
            case "interrupted":
                return line
            case _:
                # What was written is told by names, and its sums are of those.
                return None

    def _name(self, kind: str, text: str) -> str:
        if not text:
            return text
        number = sum(known == kind for known, _ in self._known)
        return self._known.setdefault((kind, text), f"{kind}-{number + 1}")

    def _policy(self, line: Line) -> Mapping[str, Any]:
        """Thresholds and periods stay."""
        policy = dict(line["policy"])
        for part in ("kubeletConfiguration", "besides"):
            policy[part] = {key: value for key, value in policy[part].items() if key not in _TEXTS}
        return policy

    def _pod(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
        for field, kind in (("name", "pod"), ("namespace", "namespace"), ("uid", "uid")):
            if field in metadata:
                metadata[field] = self._name(kind, metadata[field])
        if "annotations" in metadata:
            # Only those of static pods and mirrors are read: a source, or a uid.
            metadata["annotations"] = {
                key: text if text in ("file", "api", "http") else self._name("uid", text)
                for key, text in metadata["annotations"].items()
            }
        for field in ("containers", "initContainers"):
            if field in spec:
                spec[field] = [{**each, "name": self._name("container", each["name"])} for each in spec[field]]
        if "volumes" in spec:
            spec["volumes"] = [{**each, "name": self._name("volume", each["name"])} for each in spec["volumes"]]
        if "tolerations" in spec:
            spec["tolerations"] = [self._toleration(each) for each in spec["tolerations"]]
        if "nodeName" in spec:
            spec["nodeName"] = self._name("node", spec["nodeName"])
        if spec.get("priorityClassName", "") not in _PUBLIC:
            spec["priorityClassName"] = self._name("class", spec["priorityClassName"])
        return {**pod, "metadata": metadata, "spec": spec}

    def _toleration(self, toleration: Mapping[str, Any]) -> Mapping[str, Any]:
        key = toleration.get("key", "")
        if not key or any(part in key for part in _OF_KUBERNETES):
            return toleration
        hidden = {**toleration, "key": self._name("key", key)}
        if "value" in hidden:
            hidden["value"] = self._name("value", hidden["value"])
        return hidden

    def _look(self, line: Line) -> Line:
        node = [self._name("node", line["node"][0]), *line["node"][1:]]
        return {
            **line,
            "node": node,
            "usages": [[self._usage_key(key), self._usage(usage)] for key, usage in line["usages"]],
            "endings": [[*each[:3], self._name("uid", each[3]), *each[4:]] for each in line["endings"]],
            "told": [self._name("uid", uid) for uid in line["told"]],
        }

    def _usage_key(self, key: int | str) -> int | str:
        return self._name("uid", key) if isinstance(key, str) else key

    def _usage(self, usage: list[Any]) -> list[Any]:
        *numbers, containers, volumes = usage
        return [
            *numbers,
            [[self._name("container", each[0]), *each[1:]] for each in containers],
            [[self._name("volume", each[0]), *each[1:]] for each in volumes],
        ]
