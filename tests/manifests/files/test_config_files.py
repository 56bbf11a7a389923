"""KubeletConfiguration files: what they say, on which line, and that none of them can hurt the reader."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from jettison.errors import InputError, ManifestError
from jettison.manifests.files.config_files import LARGEST_FILE, MOST_ENTRIES, drop_in_paths, parse_config_file
from jettison.manifests.files.plain_yaml import DEEPEST, MOST_ALIASES

YAML = """\
# thresholds of the build farm
kind: KubeletConfiguration
evictionHard:
  memory.available: 5%

  nodefs.available: "10%"
maxPods: 20
"""
AS_JSON = """{
\t"kind": "KubeletConfiguration",
\t"evictionHard": {
\t\t"memory.available": "5%"
\t}
}"""


def test_yaml_keys_have_lines() -> None:
    file = parse_config_file(YAML.encode(), "k.yaml")

    assert file.source.document == {
        "kind": "KubeletConfiguration",
        "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
        "maxPods": 20,
    }
    assert file.place("evictionHard.memory.available") == "k.yaml:4"
    assert file.place("evictionHard.nodefs.available") == "k.yaml:6"
    assert file.place("maxPods") == "k.yaml:7"
    assert file.warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("systemReserve: {}\n", ["k.yaml:2: unknown field `systemReserve` is ignored, did you mean `systemReserved`?"]),
        ("evictionhard: {}\n", ["k.yaml:2: unknown field `evictionhard` is ignored, did you mean `evictionHard`?"]),
        ("zzz: 1\nmaxpods: 2\n", ["k.yaml:2: unknown field `zzz` is ignored", "k.yaml:3: unknown field `maxpods` is"]),
        (
            "authentication:\n  webhook: {enabledd: true}\n  anonymos: {enabled: 1}\n",
            [
                "k.yaml:3: unknown field `authentication.webhook.enabledd` is ignored, did you mean `enabled`?",
                "k.yaml:4: unknown field `authentication.anonymos` is ignored, did you mean `anonymous`?",
            ],
        ),
        (
            "shutdownGracePeriodByPodPriority:\n- priority: 1\n- priorityy: 2\n",
            ["k.yaml:4: unknown field `shutdownGracePeriodByPodPriority[1].priorityy` is ignored, did you mean `prior"],
        ),
        (
            "logging: {options: {json: {splitStreams: 1}}, vmodule: [{filePatern: x}]}\nmemorySwap: {swapBehaviour: }",
            [
                "k.yaml:2: unknown field `logging.options.json.splitStreams` is ignored, did you mean `splitStream`?",
                "k.yaml:2: unknown field `logging.vmodule[0].filePatern` is ignored, did you mean `filePattern`?",
                "k.yaml:3: unknown field `memorySwap.swapBehaviour` is ignored, did you mean `swapBehavior`?",
            ],
        ),
        ("memorySwap: {" + "x" * 500 + ": 1}\n", ["k.yaml:2: unknown field `memorySwap." + "x" * 29]),
        (
            "registerWithTaints: [{key: a, value: b, effect: NoExecute}]\nreservedMemory: [{limits: {memory: 1Gi}}]\n",
            [],
        ),
        ("featureGates: {NoSuchGate: true}\nstaticPodURLHeader: {a: [b]}\nauthentication: 5\ntracing: [[7]]\n", []),
        ("clusterDNS: []\nauthentication: {}\ncrashLoopBackOff: {}\n", []),
        ("x" * 500 + ": 1\n", ["k.yaml:2: unknown field `" + "x" * 40 + "… (500 characters)` is ignored"]),
        ("".join(f"evictionHar{n}: 1\n" for n in range(1000)), ["k.yaml:"] * 20 + ["k.yaml: 980 more"]),
    ],
)
def test_a_field_that_no_kubelet_has_is_named_with_the_nearest_that_it_has(text: str, expected: list[str]) -> None:
    """Fields that have nothing to do with eviction are known all the same; a thousand mistakes are told shortly."""
    found = parse_config_file(f"kind: KubeletConfiguration\n{text}".encode(), "k.yaml").warnings

    assert [said[: len(start)] for said, start in zip(found, expected, strict=True)] == expected


def test_an_entry_that_is_not_there_stands_where_its_map_stands() -> None:
    file = parse_config_file(YAML.encode(), "k.yaml")

    assert file.place("evictionHard.pid.available") == "k.yaml:3"
    assert file.place("evictionSoft.pid.available") == "k.yaml"
    assert file.value("evictionHard.memory.available") == "5%"
    assert file.value("evictionHard.pid.available") is None
    assert file.value("maxPods.entry") is None


def test_an_entry_without_a_value_is_an_empty_text() -> None:
    """As it is read, so that what is said about it can be advice about a text."""
    file = parse_config_file(b"kind: KubeletConfiguration\nevictionHard:\n  memory.available:\nmaxPods:\n", "k.yaml")

    assert file.value("evictionHard.memory.available") == ""
    assert file.value("maxPods") is None


def test_json_indented_with_tabs_has_lines_too() -> None:
    file = parse_config_file(AS_JSON.encode(), "k.json")

    assert file.source.document == json.loads(AS_JSON)
    assert file.place("evictionHard.memory.available") == "k.json:4"


def test_json_that_is_no_yaml_is_read_without_lines() -> None:
    """An escaped surrogate pair is fine in JSON and unknown to libyaml."""
    file = parse_config_file(b'{"kind": "\\ud83d\\ude00"}', "k.json")

    assert file.source.document == {"kind": "\N{GRINNING FACE}"}
    assert file.place("kind") == "k.json"


def test_braces_without_quotes_are_yaml() -> None:
    assert parse_config_file(b"{maxPods: 3}", "k").source.document == {"maxPods": 3}


def test_a_byte_order_mark_is_no_content() -> None:
    assert parse_config_file("\ufeffmaxPods: 3".encode(), "k").source.document == {"maxPods": 3}


def test_what_looks_like_a_date_is_a_string() -> None:
    assert parse_config_file(b"kind: 2030-01-01", "k").source.document == {"kind": "2030-01-01"}


@pytest.mark.parametrize("text", ["", "# nothing", "---\n"])
def test_an_empty_file_is_an_empty_document(text: str) -> None:
    assert parse_config_file(text.encode(), "k").source.document is None


def test_a_key_that_is_set_twice_is_told_with_its_line() -> None:
    file = parse_config_file(b"maxPods: 1\nevictionHard:\n  a: b\n  a: c\nmaxPods: 2\n", "k.yaml")

    assert file.source.document == {"maxPods": 2, "evictionHard": {"a": "c"}}
    assert file.warnings == (
        "k.yaml:4: `evictionHard.a` is set again, only its last value counts",
        "k.yaml:5: `maxPods` is set again, only its last value counts",
    )


def test_only_the_first_document_counts() -> None:
    file = parse_config_file(b"maxPods: 1\n---\nmaxPods: 2\n", "k.yaml")

    assert file.source.document == {"maxPods": 1}
    assert file.warnings == ("k.yaml: 2 documents, of which only the first is read",)


def test_a_separator_at_the_end_is_no_second_document() -> None:
    assert parse_config_file(b"maxPods: 1\n---\n", "k.yaml").warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\n\tc: d", "k:2: found a tab character that violates indentation"),
        ("a: [1,\n b: c", "k:3: did not find expected ',' or ']'"),
        ("a: b\nc: \x07", "k:2: control characters are not allowed"),
        ('{\n "a": 1,\n}}', "k:3: "),
        ("? [a]\n: b", "k:1: found unhashable key"),
        ("a: !!python/object:os.system x", "k:1: could not determine a constructor for the tag"),
        ("a: !!bool x", "k: a value is not what its tag says"),
        ("a: !!int ''", "k: a value is not what its tag says"),
        ("a: " + "9" * 5000, "k: a value is not what its tag says, or a number of over 4300 digits"),
        ('{"a": ' + "9" * 5000 + "}", "k: a value is not what its tag says, or a number of over 4300 digits"),
        ("a: &x [*x]", "k:1: alias `*x` stands inside an anchored value"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_config_file(text.encode(), "k")

    assert str(caught.value).startswith(message)


def test_bytes_that_are_no_text_are_told_with_their_line() -> None:
    with pytest.raises(ManifestError, match=r"^k:2: not UTF-8 at byte 8$"):
        parse_config_file(b"a: b\nc: \xff", "k")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 100_000,
        "\n".join(f"{' ' * level}a:" for level in range(DEEPEST + 1)),
        "a: &a [x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(9)),
        "a: &a x\nb: [" + "*a," * (MOST_ALIASES + 1) + "]",
        "a: b\n" * (LARGEST_FILE // 5 + 1),
    ],
    ids=["brackets", "braces", "indentation", "laughs", "aliases", "size"],
)
def test_a_bomb_is_refused_at_once(text: str) -> None:
    """200,000 brackets would crash the interpreter; forty lines of aliases would stand for 2⁴⁰ values."""
    started = time.process_time()
    with pytest.raises(ManifestError):
        parse_config_file(text.encode(), "k")
    assert time.process_time() - started < 2


def test_an_anchor_may_be_used_again() -> None:
    file = parse_config_file(b"a: &m {x: 1}\nb: *m\n", "k")

    assert file.source.document == {"a": {"x": 1}, "b": {"x": 1}}


def test_drop_ins_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("20-b.conf", "10-a/z.conf", "10-a/sub/a.conf", "9.conf", "readme.txt", "15.conf.bak", ".conf"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "30-linked").symlink_to(tmp_path / "10-a")

    found = [str(path.relative_to(tmp_path)) for path in drop_in_paths(tmp_path)]

    assert found == [".conf", "10-a/sub/a.conf", "10-a/z.conf", "20-b.conf", "9.conf"]


def test_a_tree_that_is_no_directory_of_drop_ins_is_refused(tmp_path: Path) -> None:
    """The root of all files, by a typing error, or one that is very deep."""
    deep = tmp_path / "deep" / Path(*("d" for _ in range(40)))
    deep.mkdir(parents=True)
    wide = tmp_path / "wide"
    wide.mkdir()
    for number in range(MOST_ENTRIES + 1):
        (wide / f"{number}.conf").touch()
    for path in (tmp_path / "deep", wide):
        with pytest.raises(InputError, match=r"drop-in directory `.*`: it has more than 10000 entries and 32 levels"):
            drop_in_paths(path)


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"drop-in directory `.*nowhere`: no such file or directory"):
        drop_in_paths(tmp_path / "nowhere")
