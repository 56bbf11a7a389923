"""Columns line up, and nothing that a file holds can move the cursor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jettison.cli.output import table


def test_columns_line_up_and_numbers_end_together() -> None:
    text = table(("NAME", "COUNT", "NOTE"), [("a", "5", "x"), ("longer", "1200", "")], right=("COUNT",))

    assert text == "NAME    COUNT  NOTE\na           5  x\nlonger   1200"


def test_a_table_without_rows_is_its_head() -> None:
    assert table(("A", "B"), []) == "A  B"


def test_control_characters_are_spelled_out() -> None:
    assert table(("A",), [("red\x1b[31m\n",)]) == "A\nred\\x1b[31m\\n"


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_every_row_is_one_line(rows: list[tuple[str, str]]) -> None:
    assert len(table(("A", "B"), rows).split("\n")) == len(rows) + 1
