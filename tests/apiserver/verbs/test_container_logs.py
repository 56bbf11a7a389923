"""What may be asked of a log, and how the rest is refused."""

from __future__ import annotations

import pytest

from tests.apiserver.served import PODS, Served

NO_SOURCE = "no node of this server keeps logs"


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("sinceSeconds=5", 503, NO_SOURCE),
        ("sinceTime=2027-01-01T00:00:00Z", 503, NO_SOURCE),
        ("timestamps=true", 503, NO_SOURCE),
        ("timestamps=", 503, NO_SOURCE),
        ("timestamps=perhaps", 503, NO_SOURCE),
        (
            "sinceSeconds=5&sinceTime=2027-01-01T00:00:00Z",
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("sinceSeconds=soon", 400, 'strconv.ParseInt: parsing "soon": invalid syntax'),
        ("sinceTime=yesterday", 400, "`sinceTime` is `yesterday`"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than or equal to 1"),
        # Fine as far as that goes: but there is no node to ask.
        ("timestamps=false", 503, NO_SOURCE),
        ("timestamps=False", 503, NO_SOURCE),
        ("timestamps=0&tailLines=1", 503, NO_SOURCE),
    ],
)
def test_times(api: Served, query: str, code: int, text: str) -> None:
    api.pod("p")
    answer = api.get(f"{PODS}/p/log", query=query)
    assert answer.code == code
    assert text in answer.message
