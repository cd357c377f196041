"""The documents whose tables and figures are made from records: ``python -m paper docs`` writes them all again.

A page is one line in ``PAGES``. Its renderer takes the records, in the order of their names, and returns what goes into
the document.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from counterpoint.arena import fill_document
from counterpoint.records import read_record, refill

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAGES", "Content", "Page", "study", "write_documents", "write_pages"]

ROOT = Path(__file__).parents[1]

Record = Mapping[str, Any]


class Content(NamedTuple):
    """What records put into a document: texts by the names of their places, and figures by the names of their files."""

    texts: Mapping[str, str] = MappingProxyType({})
    figures: "Mapping[str, Figure]" = MappingProxyType({})


class Page(NamedTuple):
    """A document, the records that it shows, and the function that renders them."""

    document: str
    records: tuple[str, ...]
    render: Callable[..., Content]


def study(module: str) -> Callable[[Record], Content]:
    """Return the renderer of the ``STUDY`` of a module of this package, which is imported when it is called."""

    def render(record: Record) -> Content:
        found = import_module(f"paper.{module}").STUDY
        return Content({found.name: found.in_markdown(record)}, found.figures(record))

    return render


def _table_1(record: Record) -> Content:
    from paper.table_1 import markdown

    return Content({"table-1": markdown(record)})


def _figure_6(record: Record) -> Content:
    from paper.figure_6 import draw
    from paper.forests import MAIN

    return Content(figures={"figure-6": draw(record["data"][MAIN], record["config"])})


def _table_2(record: Record) -> Content:
    from counterpoint.records import markdown
    from paper.table_2 import grid

    return Content({"table-2": markdown([grid(record)])})


def _table_3(record: Record, weka: Record) -> Content:
    from paper.table_3 import text

    return Content({"table-3": text(record, weka)})


def _figure_7(record: Record) -> Content:
    from paper.figure_7 import caption, draw

    config = record["config"]
    figure = draw(record["data"], config["n_learners"], smoke=config["smoke"])
    return Content({"figure-7": caption(record)}, {"figure-7": figure})


def _pretrained(record: Record) -> Content:
    from paper.pretrained.paper import TABLES
    from paper.pretrained.tables import draw, markdown

    table = TABLES[record["name"]]
    return Content({table.name: markdown(record, table)}, {table.name: draw(record, table)})


def _image_dial(record: Record) -> Content:
    from counterpoint.records import markdown
    from paper.convnets import dial_tables, robust_tables
    from paper.convnets.dial import STUDY

    texts = {
        "image-dial": [dial_tables.summary(record)],
        "image-dial-equivalence": [dial_tables.equivalences(record)],
        "image-dial-arms": dial_tables.grids(record),
        "image-dial-robust": robust_tables.grids(record),
    }
    return Content({name: markdown(grids) for name, grids in texts.items()}, STUDY.figures(record))


def _diversity_map(record: Record, one_unit: Record) -> Content:
    from paper.diversity_map import one_unit_tables
    from paper.diversity_map.figures import draw_all
    from paper.diversity_map.tables import NAME, markdown

    texts = {NAME: markdown(record), one_unit_tables.NAME: one_unit_tables.markdown(one_unit, record)}
    return Content(texts, draw_all(record))


def _panels(record: Record) -> Content:
    from counterpoint.records import markdown
    from paper.panels import draw, grid, judges_text

    return Content({"panels": markdown([grid(record)]), "panels-judges": judges_text(record)}, draw(record))


ARENA = "arena.md"  # made from the arena's own folder of results
_ON_IMAGES = "images-when-diversity-pays.md"

PAGES: Mapping[str, Page] = {
    "table-1": Page("random-forests.md", ("table-1",), _table_1),
    "figure-6": Page("random-forests.md", ("figure-6",), _figure_6),
    "table-2": Page("tables-2-3.md", ("table-2",), _table_2),
    "table-3": Page("tables-2-3.md", ("table-3", "bench_decorate"), _table_3),
    "figure-7": Page("tables-2-3.md", ("figure-7",), _figure_7),
    **{
        name: Page("image-tables.md", (name,), _pretrained)
        for name in ("table-4", "table-5", "table-5-short", "table-6", "table-6-short", "table-6-cifar100")
    },
    "diversity-map": Page(
        "when-does-diversity-pay.md", ("diversity-map", "diversity-map-one-unit"), _diversity_map
    ),
    "panels": Page("panels.md", ("panels",), _panels),
    "image-dial": Page(_ON_IMAGES, ("image-dial",), _image_dial),
    "image-rates": Page(_ON_IMAGES, ("image-rates",), study("convnets.rates")),
    "image-heads": Page(_ON_IMAGES, ("image-heads",), study("heads.study")),
    "image-scratch": Page(_ON_IMAGES, ("image-scratch",), study("convnets.scratch")),
}


def write_documents(results: Path = ROOT / "results", docs: Path = ROOT / "docs") -> list[Path]:
    """Write tables and figures of all documents from the records in a folder, and return their paths."""
    fill_document(results / "arena", docs / ARENA)
    return [*write_pages(results, docs), docs / ARENA]


def write_pages(results: Path = ROOT / "results", docs: Path = ROOT / "docs") -> list[Path]:
    """Write tables and figures of ``PAGES`` from the records in a folder, and return the paths of the documents."""
    for page in PAGES.values():
        records = [read_record(results / f"{name}.json") for name in page.records]
        content = page.render(*records)
        refill(docs / page.document, content.texts, content.figures)
    return list(dict.fromkeys(docs / page.document for page in PAGES.values()))
