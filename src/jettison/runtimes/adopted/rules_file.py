"""The file of rules, as the operator writes it, and the list that is shipped in the same words.

Apart from the rules themselves because it takes YAML, which a process that stays for months does without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import shortened
from jettison.manifests.files.plain_files import read_plain
from jettison.manifests.files.plain_yaml import load_documents
from jettison.runtimes.adopted.rules import GuardRules, Rule, checked_object, parse_terms
from jettison.runtimes.linux.files.kernel_files import reason

LARGEST_FILE = 2**20
MOST_RULES = 1000

SHIPPED: Final = """\
# What the machine itself needs: never stopped, unless a rule of yours says `protect: false`.
rules:
- {match: {cgroup: init.scope}, protect: true}
- {match: {cgroup: "*systemd-*.service"}, protect: true}
- {match: {cgroup: "*dbus*.service"}, protect: true}
- {match: {cgroup: "*polkit.service"}, protect: true}
- {match: {cgroup: "*ssh*.service"}, protect: true}
- {match: {cgroup: "*getty@*.service"}, protect: true}
- {match: {cgroup: "*NetworkManager*.service"}, protect: true}
- {match: {cgroup: "*networking.service"}, protect: true}
- {match: {cgroup: "*docker.service"}, protect: true}
- {match: {cgroup: "*containerd.service"}, protect: true}
- {match: {cgroup: "*podman*.service"}, protect: true}
- {match: {cgroup: "*crio.service"}, protect: true}
- {match: {cgroup: "*kubelet.service"}, protect: true}
- {match: {cgroup: "*k3s*.service"}, protect: true}
- {match: {cgroup: "*nomad.service"}, protect: true}
- {match: {cgroup: "*jettison*.service"}, protect: true}
- {match: {cgroup: "jettison/*"}, protect: true}
- {match: {cgroup: "jettison.slice/*"}, protect: true}
"""
"""As `jettison guard --show-rules` prints it. Besides, whatever holds process 1, a container engine or this program is
protected, whatever it is called."""

_TOP, _RULE = ("rules", "cgroups"), ("match", "priority", "requests", "protect", "stop")
_MATCH = ("name", "label", "cgroup", "image", "kind")


def read_rules(path: Path) -> GuardRules:
    """Raises InputError: which line or rule, which value, what is allowed."""
    try:
        text = read_plain(path, LARGEST_FILE).decode()
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8") from error
    return parse_rules(text, str(path))


def parse_rules(text: str, source: str) -> GuardRules:
    """The same, of a text."""
    documents = [each for each in load_documents(text, source, refuses_duplicates=True) if each is not None]
    if len(documents) > 1:
        raise ManifestError(f"{source}: {len(documents)} documents, expected one")
    top = checked_object(documents[0] if documents else {}, source, _TOP)
    rules = _list(top.get("rules"), f"{source}: rules")
    if len(rules) > MOST_RULES:
        raise ManifestError(f"{source}: {len(rules)} rules, at most {MOST_RULES} are allowed")
    cgroups = _list(top.get("cgroups"), f"{source}: cgroups")
    return GuardRules(
        tuple(_rule(each, f"{source}: rules[{number}]") for number, each in enumerate(rules)),
        tuple(checked_cgroup(each, f"{source}: cgroups[{number}]") for number, each in enumerate(cgroups)),
    )


def _rule(value: object, where: str) -> Rule:
    found = checked_object(value, where, _RULE)
    patterns = checked_object(found.get("match"), f"{where}.match", _MATCH)
    if not patterns:
        raise ManifestError(f"{where}.match is empty: `name: '*'` matches everything")
    for key, pattern in patterns.items():
        if not isinstance(pattern, str) or not pattern:
            raise ManifestError(
                f"{where}.match.{key} is {shortened(repr(pattern))}, expected a pattern such as `web-*`"
            )
    if "=" not in patterns.get("label", "="):
        raise ManifestError(f"{where}.match.label is `{shortened(patterns['label'])}`, expected `KEY=VALUE`")
    return Rule(parse_terms(found, where), patterns)


def checked_cgroup(value: object, where: str) -> str:
    """A pattern below the root of the memory hierarchy. Raises ManifestError."""
    if not isinstance(value, str) or not value.strip("/") or any(part in (".", "..") for part in value.split("/")):
        raise ManifestError(f"{where} is {shortened(repr(value))}, expected a path such as `system.slice/*.service`")
    return value.strip("/")


def _list(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ManifestError(f"{where} is {shortened(repr(value))}, expected a list")
    return value


def shipped_rules() -> GuardRules:
    """What is protected without a rule of the operator."""
    return parse_rules(SHIPPED, "the shipped rules")
