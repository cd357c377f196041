"""The documents that are written from records: every place is registered, and the pages hold what the records say."""

import re
import shutil
from pathlib import Path

import pytest

from paper import documents
from paper.__main__ import main
from paper.documents import PAGES, Content, Page, write_pages

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"<!-- (?!end of)([\w-]+) -->")


def test_every_place_of_a_registered_document_is_filled_from_a_record():
    for document in {page.document for page in PAGES.values()}:
        places = PLACE.findall((ROOT / "docs" / document).read_text(encoding="utf-8"))
        names = [record for page in PAGES.values() if page.document == document for record in page.records]
        for place in places:  # a record may fill several places, whose names begin with its own
            assert any(f"{place}-".startswith(f"{name}-") for name in names), (document, place)


def test_every_page_has_its_records():
    for page in PAGES.values():
        for name in page.records:
            assert (ROOT / "results" / f"{name}.json").is_file()


@pytest.mark.parametrize("name", PAGES)
def test_documents_hold_what_the_records_say(name, tmp_path, monkeypatch):
    page = PAGES[name]
    shutil.copy(ROOT / "docs" / page.document, tmp_path)
    monkeypatch.setattr(documents, "PAGES", {name: _without_figures(page)})
    assert write_pages(docs=tmp_path) == [tmp_path / page.document]
    assert (tmp_path / page.document).read_bytes() == (ROOT / "docs" / page.document).read_bytes()


def _without_figures(page):
    return Page(page.document, page.records, lambda *records: Content(page.render(*records).texts))


def test_figures_are_written_beside_the_document(tmp_path, monkeypatch):
    shutil.copy(ROOT / "docs" / PAGES["image-scratch"].document, tmp_path)
    monkeypatch.setattr(documents, "PAGES", {"image-scratch": PAGES["image-scratch"]})
    write_pages(docs=tmp_path)
    assert (tmp_path / "images" / "image-scratch.png").stat().st_size > 1000


def test_the_command_names_the_documents(monkeypatch, capsys):
    monkeypatch.setattr("paper.__main__.write_documents", lambda: [Path("docs/a.md")])
    assert main(["docs"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  docs/a.md"]
