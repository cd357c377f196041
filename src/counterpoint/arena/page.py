"""The summary as an HTML page, as Markdown, and as tables in a document."""

import base64
import io
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import counterpoint
from counterpoint._validation import printable
from counterpoint.arena.diagram import RankDisplay, ScoreDisplay
from counterpoint.arena.jobs import read_records
from counterpoint.arena.methods import BASELINE, METHODS
from counterpoint.arena.overview import rank_grids, scored, search_of, shown
from counterpoint.arena.ranks import LEVEL
from counterpoint.arena.suite import list_suite
from counterpoint.arena.summary import SCORES, STANDING, points, summarise
from counterpoint.plots import house_style
from counterpoint.records import Grid, escaped, lines, refill, write_figure, write_json, write_text
from counterpoint.records import markdown as in_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["fill_document", "grids", "html", "sentences", "write_report"]

TITLE = "Does explicit diversity beat independent training?"
FIGURES = {"ranks": ("arena-ranks", "error"), "log_loss_ranks": ("arena-log-loss-ranks", "log_loss")}
SINGLE = "arena-scores"  # the figure of a single data set
NO_SCORES = "No method has them on all tables: jobs of earlier versions did not record them.\n"


def write_report(out: str | Path) -> list[Path]:
    """Write the summary, the HTML page, the tables and the diagram of a folder of results into it.

    Parameters
    ----------
    out : path
        The folder that :func:`arena` was given.

    Returns
    -------
    list of Path
        The files. On one table, a figure shows errors and log-losses with intervals; on several, diagrams of mean
        ranks show those of at least three methods that have run on each of them.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.arena import arena, read_suite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = arena(read_suite(["iris"]), folder, methods=["extra-trees"], smoke=True)
    ...     paths = write_report(folder)
    >>> [path.name for path in paths]
    ['summary.json', 'arena.html', 'arena.md', 'arena-scores.png', 'arena-scores.svg']
    """
    out = Path(out)
    summary = summarise(read_records(out))
    numbers, *pages = paths = [out / "summary.json", out / "arena.html", out / "arena.md"]
    write_json(numbers, summary)
    for path, text in zip(pages, (html(summary), markdown(summary)), strict=True):
        write_text(path, text)
    for name, figure in _figures(summary).items():
        paths += write_figure(figure, out, name)
    return paths


def fill_document(out: str | Path, document: str | Path) -> None:
    r"""Write the tables of a folder of results into a Markdown document, and the diagram into ``images`` beside it.

    Parameters
    ----------
    out : path
        The folder that :func:`arena` was given.
    document : path
        A file with the marks of each table, as in ``<!-- arena-errors -->`` and ``<!-- end of arena-errors -->``.

    Examples
    --------
    >>> names = ["errors", "scores", "learner_accuracy", "r_tl", "r_ll", "optimality", "seconds", "paid", "suite"]
    >>> marks = [f"<!-- arena-{name} -->\n<!-- end of arena-{name} -->\n" for name in names]
    >>> import tempfile
    >>> from counterpoint.arena import arena, read_suite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = arena(read_suite(["iris"]), folder, methods=["extra-trees"], smoke=True)
    ...     document = Path(folder, "page.md")
    ...     _ = document.write_text("".join(marks))
    ...     fill_document(folder, document)
    ...     "| iris | 3 |" in document.read_text(encoding="utf-8")
    True
    """
    records = read_records(out)
    summary = summarise(records)
    found, figures = grids(summary), _figures(summary)
    figures.pop(SINGLE, None)
    parts = {f"arena-{name}": in_markdown([grid]) for name, grid in found.items() if name not in SCORES}
    if summary["ranks"]:
        parts["arena-log_loss_ranks"] = _with_diagram(parts.get("arena-log_loss_ranks"))
    parts["arena-scores"] = in_markdown([found[key] for key in SCORES if key in found]) or NO_SCORES
    parts["arena-paid"] = _listed(summary)
    parts["arena-suite"] = in_markdown([list_suite("all")])
    refill(Path(document), parts, figures)


def grids(summary: Mapping[str, Any]) -> dict[str, Grid]:
    """Return the tables by name: ranks, differences, errors, scores, tests, the learners' measures, and seconds."""
    return {
        **rank_grids(summary),
        "errors": _errors(summary),
        **{key: _scores(summary, key) for key in SCORES if scored(summary, key)},
        **({"tests": _tests(summary)} if any(summary["against"].values()) else {}),
        **{key: grid for key in STANDING if (grid := _standing(summary, key)).headings[1:]},
        "seconds": _seconds(summary),
    }


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each data set with a difference, one for the others, and one for each uneven run."""
    paid = {name: one for name, one in summary["paid"].items() if one}
    alike = [name for name, one in paid.items() if not one["gains"] and not one["losses"]]
    told = [one["sentence"] for name, one in paid.items() if name not in alike or len(alike) == 1]
    if len(alike) > 1:
        told.append(
            f"No difference can be told on {len(alike)} of {len(paid)} data sets: {', '.join(alike)}."
        )
    return [*told, *summary["uneven"].values()]


def markdown(summary: Mapping[str, Any]) -> str:
    """Return sentences and tables, each below its title."""
    tables = "\n".join(f"## {grid.title}\n\n{lines(grid)}" for grid in grids(summary).values())
    return printable(f"# {_title(summary)}\n\n{_listed(summary)}\n{tables}")


def html(summary: Mapping[str, Any]) -> str:
    """Return the page, self-contained: it requests no other file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    style = files("counterpoint.report").joinpath("templates", "page.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("counterpoint.arena"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: type(value)(printable(value)) if isinstance(value, str) else value,
    )
    return environment.get_template("arena.html").render(
        title=_title(summary),
        style=Markup(style),
        pictures={name: _picture(figure) for name, figure in _figures(summary).items()},
        sentences=sentences(summary),
        grids=grids(summary),
        settings=summary["settings"],
        methods={key: method.title for key, method in METHODS.items() if key in _methods(summary)},
        version=counterpoint.__version__,
    )


def _listed(summary: Mapping[str, Any]) -> str:
    """Return the sentences as a list in Markdown."""
    return "".join(f"- {escaped(sentence)}\n" for sentence in sentences(summary))


def _title(summary: Mapping[str, Any]) -> str:
    return f"Smoke run: {TITLE}" if summary["settings"]["smoke"] else TITLE


def _methods(summary: Mapping[str, Any]) -> list[str]:
    return [method for method in METHODS if any(method in found for found in summary["errors"].values())]


def _figures(summary: Mapping[str, Any]) -> "dict[str, Figure]":
    """Return the diagrams of mean ranks, or the scores on a single data set, by the names of their files."""
    from matplotlib.figure import Figure

    found: dict[str, Figure] = {}
    with house_style():
        if len(summary["errors"]) == 1:
            figure = found[SINGLE] = Figure(layout="constrained")
            figure.set_size_inches(ScoreDisplay(summary).plot(figure).size)
        for key, (name, score) in FIGURES.items():
            if summary[key]:
                figure = found[name] = Figure()
                marked = search_of(summary)
                display = RankDisplay.from_summary(summary, marked, score=score, ax=figure.subplots())
                figure.set_size_inches(display.size)
    return found


def _picture(figure: "Figure") -> str:
    """Return a figure as SVG in base 64, the same each time."""
    drawn = io.BytesIO()
    with house_style():
        figure.savefig(drawn, format="svg", metadata={"Creator": None, "Date": None})
    return base64.b64encode(drawn.getvalue()).decode()


def _with_diagram(grid: str | None) -> str:
    """Return the ranks by log-loss below their diagram, or a sentence if there are none."""
    if grid is None:
        return NO_SCORES
    image = f"images/{FIGURES['log_loss_ranks'][0]}.png"
    return f"![Mean ranks of the methods by log-loss, with the critical difference]({image})\n\n{grid}"


def _scores(summary: Mapping[str, Any], key: str) -> Grid:
    methods = scored(summary, key)
    rows = [[name, *(shown(one[m][key]) for m in methods)] for name, one in summary["scores"].items()]
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
        "(corrected resampled t-test, Holm's correction over all data sets and methods)"
    )
    return Grid(title, ["data", *methods], rows)


def _standing(summary: Mapping[str, Any], key: str) -> Grid:
    found = summary["standing"]
    methods = [m for m in _methods(summary) if any(s.get(m, {}).get(key) is not None for s in found.values())]
    rows = [[name, *(shown(one.get(m, {}).get(key)) for m in methods)] for name, one in found.items()]
    return Grid(f"On the rows held out: {STANDING[key]}", ["data", *methods], rows)


def _seconds(summary: Mapping[str, Any]) -> Grid:
    methods = _methods(summary)
    rows = [
        [name, *("" if m not in found else f"{found[m]:.1f}" for m in methods)]
        for name, found in summary["seconds"].items()
    ]
    return Grid("Seconds to tune and train on one fold", ["data", *methods], rows)
