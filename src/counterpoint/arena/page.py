"""The summary as a page of HTML, as Markdown, and in its places in a document."""

import base64
import io
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import counterpoint
from counterpoint.arena.diagram import RankDisplay
from counterpoint.arena.jobs import read_records
from counterpoint.arena.methods import BASELINE, METHODS, SEARCHES
from counterpoint.arena.post_hoc import describe_search, post_hoc_search
from counterpoint.arena.summary import LEVEL, SCORES, STANDING, points, summarise
from counterpoint.plots import house_style
from counterpoint.records import Grid, escaped, lines, number, refill, write_figure, write_json, write_text
from counterpoint.records import markdown as in_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["fill_document", "grids", "html", "overview", "sentences", "write_report"]

TITLE = "Does explicit diversity beat independent training?"
FIGURE = "arena-ranks"
NO_SCORES = "No method has them on all tables: jobs of earlier versions did not record them.\n"


def write_report(out: Path) -> list[Path]:
    """Write the summary of the jobs in a folder, its page, its tables and its diagram beside them."""
    summary = summarise(read_records(out))
    numbers, *pages = paths = [out / "summary.json", out / "arena.html", out / "arena.md"]
    write_json(numbers, summary)
    for path, text in zip(pages, (html(summary), markdown(summary)), strict=True):
        write_text(path, text)
    if summary["ranks"]:
        paths += write_figure(_drawn(summary), out, FIGURE)
    return paths


def fill_document(out: Path, document: Path) -> None:
    """Write the tables of a folder, each below its title, into a document, and the diagram beside its images."""
    records = read_records(out)
    summary = summarise(records)
    found = grids(summary)
    parts = {f"arena-{name}": in_markdown([grid]) for name, grid in found.items() if name not in SCORES}
    parts["arena-scores"] = in_markdown([found[key] for key in SCORES if key in found]) or NO_SCORES
    parts["arena-paid"] = sentences(summary)
    if tried := post_hoc_search(records):
        parts["arena-tried"] = describe_search(tried)
    refill(document, parts, {FIGURE: _drawn(summary)} if summary["ranks"] else {})


def grids(summary: Mapping[str, Any]) -> dict[str, Grid]:
    """Return the tables: the methods over all data sets, errors, scores, tests, what is known of learners, the time."""
    found = {
        "errors": _errors(summary),
        **{key: _scores(summary, key) for key in SCORES if _scored(summary, key)},
        **({"tests": _tests(summary)} if any(summary["against"].values()) else {}),
        **{key: grid for key in STANDING if (grid := _standing(summary, key)).headings[1:]},
        "seconds": _seconds(summary),
    }
    return {"ranks": _ranks(summary), **found} if summary["ranks"] else found


def overview(summary: Mapping[str, Any]) -> Grid:
    """Return the methods that have run on every data set, the best first: ranks if there are any, errors and scores."""
    names, ranks = list(summary["errors"]), summary["ranks"]
    methods = [m for m in METHODS if all(m in summary["errors"][name] for name in names)]
    errors = {m: fmean(summary["errors"][name][m]["mean"] for name in names) for m in methods}
    scores = [words for key, words in SCORES.items() if _scored(summary, key)]
    rows = [
        [
            method,
            *([f"{ranks['mean_rank'][method]:.2f}"] if ranks else []),
            f"{100 * errors[method]:.2f}",
            *_mean_scores(summary, method),
        ]
        for method in sorted(methods, key=lambda m: (ranks["mean_rank"][m] if ranks else errors[m], m))
    ]
    where = names[0] if len(names) == 1 else f"{len(names)} data sets"
    headings = ["method", *(["mean rank"] if ranks else []), "error, %", *scores]
    return Grid(f"Means on {where}", headings, rows)


def sentences(summary: Mapping[str, Any]) -> str:
    """Return one sentence for each data set, and one for each whose methods differ in their repeats, in Markdown."""
    return "".join(f"- {escaped(sentence)}\n" for sentence in _sentences(summary))


def markdown(summary: Mapping[str, Any]) -> str:
    """Return sentences and tables, each below its title."""
    tables = "\n".join(f"## {grid.title}\n\n{lines(grid)}" for grid in grids(summary).values())
    return f"# {_title(summary)}\n\n{sentences(summary)}\n{tables}"


def html(summary: Mapping[str, Any]) -> str:
    """Return one page that requests nothing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    style = files("counterpoint.report").joinpath("templates", "page.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("counterpoint.arena"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("arena.html").render(
        title=_title(summary),
        style=Markup(style),
        diagram=_picture(summary) if summary["ranks"] else None,
        sentences=_sentences(summary),
        grids=grids(summary),
        settings=summary["settings"],
        methods={key: method.title for key, method in METHODS.items() if key in _methods(summary)},
        version=counterpoint.__version__,
    )


def _sentences(summary: Mapping[str, Any]) -> list[str]:
    return [*(one["sentence"] for one in summary["paid"].values() if one), *summary["uneven"].values()]


def _title(summary: Mapping[str, Any]) -> str:
    return f"Smoke run: {TITLE}" if summary["settings"]["smoke"] else TITLE


def _methods(summary: Mapping[str, Any]) -> list[str]:
    return [method for method in METHODS if any(method in found for found in summary["errors"].values())]


def _drawn(summary: Mapping[str, Any]) -> "Figure":
    from matplotlib.figure import Figure

    display = RankDisplay.from_summary(summary, marked=_search(summary))
    with house_style():
        figure = Figure(figsize=display.size)
        display.plot(figure.subplots())
    return figure


def _picture(summary: Mapping[str, Any]) -> str:
    """Return the diagram as SVG in base 64, the same each time."""
    drawn = io.BytesIO()
    with house_style():
        _drawn(summary).savefig(drawn, format="svg", metadata={"Creator": None, "Date": None})
    return base64.b64encode(drawn.getvalue()).decode()


def _search(summary: Mapping[str, Any]) -> str | None:
    """Return the search that the ranks are seen from, if one has a rank."""
    return next((method for method in SEARCHES if method in summary["ranks"]["methods"]), None)


def _ranks(summary: Mapping[str, Any]) -> Grid:
    ranks, search = summary["ranks"], _search(summary)
    tables = ranks["tables"]
    rows = []
    for method in sorted(ranks["methods"], key=lambda method: (ranks["mean_rank"][method], method)):
        standing = [_mean([summary["standing"][name][method][key] for name in tables]) for key in STANDING]
        p = [] if search is None else ["" if method == search else f"{ranks['nemenyi'][search][method]:.2g}"]
        rows.append(
            [
                method,
                f"{ranks['mean_rank'][method]:.2f}",
                f"{100 * ranks['mean_error'][method]:.2f}",
                *_mean_scores(summary, method),
                *p,
                *(_number(value) for value in standing),
                f"{fmean(summary['seconds'][name][method] for name in tables):.1f}",
            ]
        )
    test = ranks["friedman"]
    title = (
        f"Mean ranks of {len(rows)} methods over {len(tables)} data sets (Friedman: p = {test['p_value']:.2g}; "
        f"critical difference {ranks['critical_difference']:.2f})"
    )
    scores = [words for key, words in SCORES.items() if _scored(summary, key)]
    against = [] if search is None else [f"p against {search}"]
    headings = ["method", "mean rank", "mean error, %", *scores, *against, *STANDING.values()]
    return Grid(title, [*headings, "seconds a fold"], rows)


def _scored(summary: Mapping[str, Any], key: str) -> list[str]:
    """Return the methods that have a score on every data set."""
    found = summary["scores"].values()
    return [m for m in METHODS if all(key in own.get(m, {}) for own in found)]


def _mean_scores(summary: Mapping[str, Any], method: str) -> list[str]:
    """Return a method's means over the data sets of the scores that are shown; nothing where it lacks one."""
    cells = []
    for key in SCORES:
        if methods := _scored(summary, key):
            own = summary["scores"].values()
            cells.append(_number(fmean(one[method][key] for one in own)) if method in methods else "")
    return cells


def _scores(summary: Mapping[str, Any], key: str) -> Grid:
    methods = _scored(summary, key)
    rows = [[name, *(_number(one[m][key]) for m in methods)] for name, one in summary["scores"].items()]
    return Grid(
        f"{SCORES[key].capitalize()} of what a method predicts, mean over folds", ["data", *methods], rows
    )


def _errors(summary: Mapping[str, Any]) -> Grid:
    methods = _methods(summary)
    rows = []
    for name, found in summary["errors"].items():
        least = min(round(one["mean"], 9) for one in found.values())
        cells = []
        for method in methods:
            if method not in found:
                cells.append("")
                continue
            text = f"{100 * found[method]['mean']:.2f} ± {100 * found[method]['sd']:.2f}"
            cells.append(f"**{text}**" if round(found[method]["mean"], 9) == least else text)
        n = sorted({one["n"] for one in found.values()})
        rows.append([name, "/".join(map(str, n)), *cells])
    return Grid("Error in percent, mean ± standard deviation over n folds", ["data", "n", *methods], rows)


def _tests(summary: Mapping[str, Any]) -> Grid:
    """Return the differences to independent training, with a star where the corrected p is below the level."""
    methods = [method for method in _methods(summary) if method != BASELINE]
    rows = []
    for name, tests in summary["against"].items():
        cells = []
        for method in methods:
            test = tests.get(method)
            star = "" if test is None or test["p_corrected"] >= LEVEL else "*"
            cells.append("" if test is None else f"{points(test['difference'])}{star}")
        rows.append([name, *cells])
    title = (
        f"Error less that of {BASELINE}, in points; a star: p < {LEVEL:g} "
        "(corrected resampled t-test, Holm's correction over the data sets)"
    )
    return Grid(title, ["data", *methods], rows)


def _standing(summary: Mapping[str, Any], key: str) -> Grid:
    found = summary["standing"]
    methods = [m for m in _methods(summary) if any(s.get(m, {}).get(key) is not None for s in found.values())]
    rows = [[name, *(_number(one.get(m, {}).get(key)) for m in methods)] for name, one in found.items()]
    return Grid(f"On the rows held out: {STANDING[key]}", ["data", *methods], rows)


def _seconds(summary: Mapping[str, Any]) -> Grid:
    methods = _methods(summary)
    rows = [
        [name, *("" if m not in found else f"{found[m]:.1f}" for m in methods)]
        for name, found in summary["seconds"].items()
    ]
    return Grid("Seconds to tune and train on one fold", ["data", *methods], rows)


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def _number(value: float | None) -> str:
    return "" if value is None else number(value)
