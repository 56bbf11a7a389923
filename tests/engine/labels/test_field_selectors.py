"""Field selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.labels.field_selectors import FieldSelector, FieldTerm, parse_field_selector
from jettison.errors import InputError

names = st.text(alphabet="abc.[]", min_size=1, max_size=8)
terms = st.builds(FieldTerm, names, st.text(max_size=12), st.booleans())


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (",,", ""),
        ("b==1,a=2", "a=2,b=1"),
        ("a!=", "a!="),
        ("=x", "=x"),
        ("=", ""),
        ("!=,a=1", "a=1"),
        (r"a=b\,c\=d\\", r"a=b\,c\=d\\"),
        (" a = b ", " a = b "),
    ],
)
def test_canonical_texts(text: str, canonical: str) -> None:
    """White space belongs to the name or value; an operator alone says nothing and is dropped."""
    selector = parse_field_selector(text)
    assert str(selector) == canonical
    assert selector.is_empty is (canonical == "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
        ("a!=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\b", "invalid field selector: invalid escape sequence: \\b"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_complaints(text: str, complaint: str) -> None:
    """The first bad term in sorted order is the one complained about; a rune is shown as its number."""
    with pytest.raises(InputError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == complaint


def test_a_missing_field_counts_as_empty() -> None:
    """Unlike with labels there is no difference between absent and empty."""
    assert parse_field_selector("spec.nodeName=").matches({})
    assert parse_field_selector("spec.nodeName!=n1").matches({})
    assert not parse_field_selector("spec.nodeName!=").matches({})
    assert not parse_field_selector("a=1,b=2").matches({"a": "1"})


@given(st.lists(terms, max_size=4))
def test_the_canonical_text_means_the_same(parts: list[FieldTerm]) -> None:
    """Any value survives its escapes; only the order of terms may change."""
    selector = parse_field_selector(str(FieldSelector(tuple(parts))))
    assert sorted(selector.terms, key=str) == sorted(parts, key=str)


@given(st.text(alphabet="a=!,\\ é", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but InputError, and what is read prints to a text with the same terms.

    Their order may change once: `a==b` is sorted as it was written, before `a=a`.
    """
    try:
        selector = parse_field_selector(text)
    except InputError:
        return
    assert sorted(parse_field_selector(str(selector)).terms, key=str) == sorted(selector.terms, key=str)
