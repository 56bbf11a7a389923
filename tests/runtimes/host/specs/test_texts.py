"""Hostile texts are refused with a message that can be printed, and none grows without bounds."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from jettison.errors import ManifestError
from jettison.runtimes.host.processes.launching import arguments, at_once, environment
from jettison.runtimes.host.specs import texts
from jettison.runtimes.host.specs.spec import ContainerSpec, pod_spec
from jettison.runtimes.host.specs.texts import LONGEST_STRING, MOST_REFERENCES, Sizes, expand
from tests.runtimes.host.scenes import SLEEPS, container, document

HOSTILE = ["", "..", ".", "a/b", "/", "a\0b", "a\nb", "A", "-a", "a-", "a" * 64, "ä", "a b", "a\n", "\ud800", "٣"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_label_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="not a lower case DNS label") as caught:
        texts.label(text, "name")
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("text", ["a", "a-b", "0", "a" * 63])
def test_a_plain_label_is_taken(text: str) -> None:
    assert texts.label(text, "name") == text


@pytest.mark.parametrize("text", [*(each for each in HOSTILE if each != "a" * 64), "a..b", ".a", "a." + "b" * 252])
def test_a_hostile_pod_name_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="not a lower case DNS name"):
        texts.subdomain(text, "metadata.name")


def test_a_pod_name_may_have_dots() -> None:
    assert texts.subdomain("a.b-c.d", "metadata.name") == "a.b-c.d"


@pytest.mark.parametrize("text", ["a\0", "\udfff", "x\ud800y"])
def test_what_no_program_can_be_given_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="no program can be given"):
        texts.passable(text, "command")


@pytest.mark.parametrize("text", ["", "a\nb", "é", "😀", "$(X)"])
def test_anything_else_may_be_an_argument(text: str) -> None:
    assert texts.passable(text, "command") == text


@pytest.mark.parametrize("path", ["/a", "../a", "a/../../b", "a/.."])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(ManifestError, match=r"relative and without `\.\.`"):
        texts.below(path, "subPath")


def test_a_choice_names_what_is_allowed() -> None:
    with pytest.raises(ManifestError, match="medium is `Disk`, allowed: `Memory`"):
        texts.choice("Disk", ("", "Memory"), "medium")


def test_the_first_name_that_comes_twice_is_named() -> None:
    with pytest.raises(ManifestError, match="two volumes are called `b`"):
        texts.unique(["a", "b", "b", "a"], "volume")


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), ("a\nb", r"a\nb"), ("\x1b[2J", r"\x1b[2J"), ("\ud800", r"\ud800"), (-5, "-5"), ("'", "'")],
)
def test_what_is_shown_can_be_printed_and_is_quoted_once(value: object, text: str) -> None:
    assert texts.shown(value) == text


def doubling(count: int, times: int = 10) -> list[dict[str, str]]:
    return [{"name": f"A{n}", "value": f"$(A{n - 1})" * times if n else "x" * times} for n in range(count)]


def refusal(**more: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        pod_spec(document(container(SLEEPS, **more)))
    return str(caught.value)


@pytest.mark.parametrize("count", [6, 9, 30, 400])
def test_what_grows_without_bound_is_refused_before_it_has_grown(count: int) -> None:
    tracemalloc.start()
    try:
        said = refusal(env=doubling(count))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert "env `A5`: 1000003 bytes after expansion, at most 131071 can be passed" in said


def test_what_just_fits_is_as_long_as_it_was_counted() -> None:
    """The sums and the expansion must agree, or the bound is none."""
    variables = {"A": "ä" * 10, "B": "x" * 1000, "EMPTY": ""}
    for text in (
        "$(A)$(B)",
        "$$(A)",
        "$(C)",
        "$$$$",
        "$",
        "$(",
        "$(A",
        "$()",
        "$(EMPTY)ö",
        "$($(A))",
        "plain",
        "$(A)$",
    ):
        sizes = Sizes(variables)
        assert sizes._expanded(text, "") == len(expand(text, variables).encode()), text


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"args": ["x" * (LONGEST_STRING + 1)]}, "command: 131072 bytes after expansion, at most 131071"),
        ({"args": ["x" * 100_000] * 3}, "command: env and args have more than 262144 bytes after expansion"),
        ({"args": ["$(X)" * (MOST_REFERENCES + 1)]}, "command: `$(` and `$$` more than 500 times in one container"),
        ({"args": ["$$" * (MOST_REFERENCES + 1)]}, "more than 500 times"),
        ({"args": ["x"] * 1000}, "command: must have at most 1000 items, got 1002"),
        ({"env": [{"name": "A", "value": "x" * LONGEST_STRING}]}, "env `A`: 131073 bytes after expansion"),
        ({"env": [{"name": "N" * 131_072}]}, "131073 bytes after expansion"),
        ({"env": [{"name": f"V{n}"} for n in range(501)]}, "env: must have at most 500 items, got 501"),
        (
            {"env": doubling(5), "livenessProbe": {"exec": {"command": ["$(A4)"] * 3}}},
            "livenessProbe: env and args have more than",
        ),
        (
            {"env": doubling(5), "lifecycle": {"preStop": {"exec": {"command": ["$(A4)$(A4)"]}}}},
            "preStop: 200000 bytes after expansion",
        ),
        ({"workingDir": "/" + "d" * 4095}, "workingDir: 4096 characters, at most 4095 can be a path"),
        ({"ports": [{"containerPort": 1}] * 101}, "ports: must have at most 100 items, got 101"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": f"/{n}"} for n in range(65)]},
            "volumeMounts: must have at most 64",
        ),
        (
            {"livenessProbe": {"exec": {"command": ["x"] * 1001}}},
            "exec.command: must have at most 1000 items, got 1001",
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "x" * 9000}]}}},
            "path and httpHeaders have 9002 bytes, at most 8192",
        ),
        ({"livenessProbe": {"tcpSocket": {"port": 1, "host": "h" * 300}}}, "is no host"),
    ],
)
def test_every_length_and_count_has_a_bound(more: dict[str, Any], complaint: str) -> None:
    said = refusal(**more)
    assert complaint in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"initContainers": [container(SLEEPS, f"i{n}") for n in range(32)]}, "must have at most 32 items, got 33"),
        (
            {"volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(65)]},
            "spec.volumes: must have at most 64 items",
        ),
        ({"tolerations": [{"operator": "Exists"}] * 101}, "spec.tolerations: must have at most 100 items, got 101"),
        ({"overhead": {f"r{n}": "1" for n in range(51)}}, "spec.overhead: must have at most 50 items, got 51"),
        (
            {"resources": {"limits": {f"r{n}": "1" for n in range(51)}}},
            "spec.resources.limits: must have at most 50 items, got 51",
        ),
    ],
)
def test_a_pod_has_so_many_containers_and_volumes(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        pod_spec(document(container(SLEEPS), **spec))


def test_what_only_the_start_knows_is_counted_at_the_start() -> None:
    spec = ContainerSpec("c", ("x", "$(HOME)" * 40), (("A", "$(HOME)" * 40),))
    directory = Path("/" + "d" * 4000)
    with pytest.raises(ManifestError, match="env `A`: 160042 bytes after expansion"):
        at_once(environment(spec, "pod", directory, {}, {}))
    with pytest.raises(ManifestError, match="command: 160040 bytes after expansion"):
        at_once(arguments(spec.command, {"HOME": str(directory)}))
