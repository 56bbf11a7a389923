"""Bytes to structs: what is said about a document that cannot be read."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from jettison.errors import ManifestError
from jettison.manifests.files.decoding import Unsigned, Wire, convert, decode, shortened


class _Inner(Wire):
    some_count: Unsigned | None = None


class _Outer(Wire):
    inner: list[_Inner] | None = None
    name: str | None = None


DECODER = msgspec.json.Decoder(_Outer)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "file: is empty"),
        (b"{", "file: input data was truncated"),
        (b"[]", "file: expected `object`, got `array`"),
        (b"{]", "file: JSON is malformed: object keys must be strings (byte 1)"),
        (b'{"inner": 5}', "file: expected `array | null`, got `int` at `inner`"),
        (b'{"inner": [{"someCount": -1}]}', "file: expected `int` >= 0 at `inner[0].someCount`"),
        (b'{"inner": [{"someCount": "x"}]}', "file: expected `int | null`, got `str` at `inner[0].someCount`"),
        (b'{"name": "\xff"}', "file: not UTF-8"),
        (b'{"other": ' + b"[" * 100_000, "file: nested too deeply to be a Kubernetes object"),
    ],
)
def test_what_and_where(data: bytes, said: str) -> None:
    """The source, the mistake and the place in the document; lower case, no full stop."""
    with pytest.raises(ManifestError) as refusal:
        decode(DECODER, data, "file")
    assert str(refusal.value) == said


def test_unknown_fields_are_skipped_and_null_is_absent() -> None:
    """An object of a newer Kubernetes is as good as any."""
    found = decode(DECODER, b'{"new": {"x": [1]}, "inner": [{"someCount": null}, {}]}', "file")
    assert found.inner is not None
    assert [each.some_count for each in found.inner] == [None, None]


def test_a_decoded_document_is_held_to_the_same() -> None:
    """From YAML or from an API: the same shapes, the same words."""
    assert convert({"inner": [{"someCount": 7}]}, _Outer, "object").inner is not None
    with pytest.raises(ManifestError, match=r"object: expected `int \| null`, got `bool` at `inner\[0\]\.someCount`"):
        convert({"inner": [{"someCount": True}]}, _Outer, "object")


@pytest.mark.parametrize(
    ("text", "shown"), [("short", "short"), ("x" * 60, "x" * 60), ("y" * 1000, "y" * 40 + "… (1000 characters)")]
)
def test_a_hostile_value_does_not_fill_the_screen(text: str, shown: str) -> None:
    """Sixty characters are enough to recognise it."""
    assert shortened(text) == shown


_AT_ONCE = """
import sys, threading
from jettison.manifests.files.decoding import convert

CHAIN = "".join(f"class T{n}(Struct):\\n    next: T{n + 1} | None = None\\n" for n in range(8))
sys.setswitchinterval(1e-6)
for _ in range(60):
    exec("from __future__ import annotations\\nfrom msgspec import Struct\\nclass T8(Struct): ...\\n" + CHAIN)
    start = threading.Barrier(4)
    def work(kind=T0):
        start.wait()
        convert({"next": {"next": {}}}, kind, "here")
    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def test_threads_that_meet_a_shape_for_the_first_time_do_not_end_the_process() -> None:
    """As two nodes of one process do that each start their first pod."""
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
