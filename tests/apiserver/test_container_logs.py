"""What may be asked of a log; nobody keeps the time of a line."""

from __future__ import annotations

import pytest

from tests.apiserver.served import PODS, Served

TIMELESS = "is not supported: the lines of a log carry no times here"


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("sinceSeconds=5", 400, f"`sinceSeconds` {TIMELESS}"),
        ("sinceTime=2027-01-01T00:00:00Z", 400, f"`sinceTime` {TIMELESS}"),
        ("timestamps=true", 400, f"`timestamps` {TIMELESS}"),
        ("timestamps=", 400, f"`timestamps` {TIMELESS}"),
        ("timestamps=perhaps", 400, f"`timestamps` {TIMELESS}"),
        ("sinceSeconds=soon", 400, 'strconv.ParseInt: parsing "soon": invalid syntax'),
        ("sinceTime=yesterday", 400, "`sinceTime` is `yesterday`"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than or equal to 1"),
        # Fine as far as that goes: but there is no node to ask.
        ("timestamps=false", 503, "no node of this server keeps logs"),
        ("timestamps=False", 503, "no node of this server keeps logs"),
        ("timestamps=0&tailLines=1", 503, "no node of this server keeps logs"),
    ],
)
def test_times(api: Served, query: str, code: int, text: str) -> None:
    api.pod("p")
    answer = api.get(f"{PODS}/p/log", query=query)
    assert answer.code == code
    assert text in answer.message
