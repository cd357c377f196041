"""Documents are filled from records: tables between their marks, figures beside them."""

import pytest
from matplotlib.figure import Figure

from counterpoint.records import fill, refill


def test_a_document_is_filled_between_its_marks():
    empty = "before\n<!-- table-1 -->\n<!-- end of table-1 -->\nafter\n"
    once = fill(empty, "table-1", "| a |\n")
    assert once == "before\n<!-- table-1 -->\n\n| a |\n\n<!-- end of table-1 -->\nafter\n"
    assert fill(once, "table-1", "| a |\n") == once
    with pytest.raises(ValueError, match="`document` must hold the lines '<!-- table-1 -->' and"):
        fill("no marks", "table-1", "| a |\n")


def test_tables_and_figures_find_their_places(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("<!-- a -->\n<!-- end of a -->\n<!-- b -->\n<!-- end of b -->\n", encoding="utf-8")
    refill(document, {"b": "| 2 |\n", "a": "| 1 |\n"}, {"a": Figure(figsize=(1, 1))})
    text = document.read_text(encoding="utf-8")
    assert text.index("| 1 |") < text.index("<!-- b -->") < text.index("| 2 |")
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["a.png"]


def test_a_document_without_a_place_for_a_table_is_left_as_it_was(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("<!-- a -->\n<!-- end of a -->\n", encoding="utf-8")
    with pytest.raises(ValueError, match="`document` must hold the lines '<!-- b -->'"):
        refill(document, {"a": "| 1 |\n", "b": "| 2 |\n"})
    assert document.read_text(encoding="utf-8") == "<!-- a -->\n<!-- end of a -->\n"
