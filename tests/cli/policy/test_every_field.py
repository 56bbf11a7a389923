"""No field and no flag of a kubelet is accepted in silence: a node does what it says, or the operator is told."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from jettison.engine.config.kubelet_fields import ALL_KEYS, API_VERSION, BY_KEY, FIELDS, KIND, Field
from jettison.engine.config.kubelet_fields import Kind as FieldKind
from tests.cli.running import run

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "jettison"
SIZES = ("--capacity-memory", "8Gi", "--capacity-disk", "100Gi", "--capacity-inodes", "1M", "--capacity-pids", "32768")
UNHEEDED = [row for row in FIELDS if row.unheeded]
HEEDED = [row for row in FIELDS if not row.unheeded]
# Where a value of its kind is not enough: the kubelet checks these against other fields.
VALUES = {"image_gc_high_threshold": 90, "image_gc_low_threshold": 70}


def _name(row: Field) -> str:
    return row.key or f"--{row.flag}"


def _another_value(row: Field) -> object:
    """One that a kubelet takes and a node of ours does not act by."""
    if row.attribute in VALUES:
        return VALUES[row.attribute]
    if row.kind is FieldKind.BOOL:
        return not row.acted_by
    return {FieldKind.DURATION: "7m0s", FieldKind.TEXT: "/elsewhere", FieldKind.INT32: 7}[row.kind]


def _checked(directory: Path, document: dict[str, object], *flags: str) -> str:
    path = directory / "kubelet.json"
    path.write_bytes(msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, **document}))
    done = run("config", "check", str(path), *SIZES, *flags)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("row", UNHEEDED, ids=_name)
def test_what_a_node_does_not_do_is_said(row: Field, tmp_path: Path) -> None:
    """As a field and as a flag, in one line with the reason; not where the value is what a node does anyway."""
    value = _another_value(row)
    warning = f"has no effect: {row.unheeded}"
    if row.key is not None:
        assert warning in _checked(tmp_path, {row.key: value})
        if row.kind is not FieldKind.DURATION:
            assert warning not in _checked(tmp_path, {row.key: row.acted_by})
    if row.flag is not None:
        text = str(value).lower() if row.kind is FieldKind.BOOL else str(value)
        assert warning in _checked(tmp_path, {}, f"--{row.flag}={text}")
    assert warning not in _checked(tmp_path, {})


def test_up_says_it_too(tmp_path: Path) -> None:
    """Before anything is started: here nothing is, because pods would be left without memory."""
    done = run("up", "--state-dir", str(tmp_path), "--cgroup-root=/other", "--system-reserved=memory=900Ti")
    assert done.exit_code == 2
    assert "cgroupRoot" in done.stderr
    assert "has no effect: the node's cgroup is named by --cgroup-name" in done.stderr


@cache
def _attributes_read() -> frozenset[str]:
    """By name, in all code but that which reads, checks and explains configurations."""
    readers = ("kubelet_fields.py", "kubelet_config.py", "validation.py", "config_warnings.py")
    # Parsing all modules takes 3 s, and most have none of these words.
    some = re.compile(rf"\.({'|'.join(row.attribute for row in HEEDED)})\b")
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name not in readers)
    return frozenset(
        node.attr
        for text in texts
        if some.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
    )


@pytest.mark.parametrize("row", HEEDED, ids=_name)
def test_what_is_accepted_without_a_word_is_read(row: Field) -> None:
    """By code outside of the reading of configurations; a new field that nothing reads fails here."""
    if row.attribute == "merge_default_eviction_settings":  # has done its work once the configuration is assembled
        return
    assert row.attribute in _attributes_read()


def test_fields_that_do_not_concern_eviction_are_named_in_one_line(tmp_path: Path) -> None:
    other = ALL_KEYS - BY_KEY.keys() - {"apiVersion", "kind"}
    assert len(other) > 60

    said = _checked(tmp_path, dict.fromkeys(sorted(other)))

    [line] = [each for each in said.splitlines() if "does not concern eviction" in each]
    assert all(key in line for key in other)


def test_an_unknown_field_is_said_and_an_unknown_flag_is_refused(tmp_path: Path) -> None:
    assert "unknown field `evictionHarder` is ignored, did you mean `evictionHard`?" in _checked(
        tmp_path, {"evictionHarder": {}}
    )
    assert run("config", "check", "--eviction-harder=x").exit_code == 2


@pytest.mark.parametrize("row", FIELDS, ids=_name)
def test_every_field_is_listed_with_what_becomes_of_it(row: Field) -> None:
    """In docs/faithfulness.md, which an operator reads before a node is given to us."""
    text = (ROOT / "docs" / "faithfulness.md").read_text(encoding="utf-8")
    [line] = [each for each in text.splitlines() if each.startswith(f"| `{_name(row)}`")]
    state = line.split("|")[2].strip()
    assert state == ("warned" if row.unheeded else "honoured")
