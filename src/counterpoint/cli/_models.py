"""The commands that train and use a model of a table: fit, predict."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoint.cli._ensembles import Card, write_card
from counterpoint.cli._options import Json
from counterpoint.cli._printing import as_text, console, echo, echo_json, has_bars, write_csv
from counterpoint.io import TABLE_FORMATS, WRITABLE_TABLE_FORMATS, check_suffix, format_names

if TYPE_CHECKING:
    from counterpoint._validation import FloatArray
    from counterpoint.io import TrainingTable
    from counterpoint.models import TableFit, TablePredictions

# Names on the screen; the model's JSON has all of them.
_MOST_NAMES = 8

FIT_EXAMPLES = """[b]Examples[/b]

counterpoint fit animals.csv --target species --drop id

counterpoint fit animals.parquet --target species --search --out model"""

PREDICT_EXAMPLES = """[b]Examples[/b]

counterpoint predict model new.csv --out predictions.csv --proba

counterpoint predict model judged.csv --learners --out learners.csv

counterpoint assess learners.csv --truth species --voting geometric"""


def _path(text: str | Path) -> Path:
    """Return a path; refuse an empty one, which would mean the current folder."""
    if not str(text):
        raise typer.BadParameter("a path must not be empty.")
    return Path(text)


_DATA = typer.Argument(
    metavar="DATA",
    parser=_path,
    help=f"{format_names(TABLE_FORMATS)} with one row per sample.",
    show_default=False,
)
_TARGET = typer.Option(
    "--target", "-t", metavar="COLUMN", help="Column with the classes.", show_default=False
)
_FOLDER = typer.Option(
    metavar="FOLDER", parser=_path, help="Folder for the model; an existing model is replaced."
)
_DROP = typer.Option(metavar="COLUMN", help="Leave out this column; may be repeated.", show_default=False)
_DIVERSITY = typer.Option(
    min=0,
    max=1,
    metavar="NUMBER",
    help="Weight of diversity in the loss, from 0 (independent networks) to 1.",
    show_default="1 - 1 / learners",
)
_SEARCH = typer.Option(
    "--search", help="Choose the diversity by cross-validation, and report whether diversity pays."
)
_PAGE = typer.Option(
    metavar="PAGE",
    dir_okay=False,
    help="Write the report to this page instead of the model folder.",
    show_default=False,
)


def fit(
    data: Annotated[Path, _DATA],
    target: Annotated[str, _TARGET],
    out: Annotated[Path, _FOLDER] = Path("model"),
    drop: Annotated[list[str] | None, _DROP] = None,
    diversity: Annotated[float | None, _DIVERSITY] = None,
    search: Annotated[bool, _SEARCH] = False,
    learners: Annotated[int, typer.Option(min=2, help="Number of networks.")] = 15,
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the rows.")] = 100,
    test_share: Annotated[float, typer.Option(help="Share of the rows held out for the assessment.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random draw.")] = 0,
    html: Annotated[Path | None, _PAGE] = None,
    card: Card = None,
    as_json: Json = False,
) -> None:
    """Train an ensemble of networks on a table, assess it on held-out rows, and save it."""
    from counterpoint._validation import check_number, check_path
    from counterpoint.io import read_training_table
    from counterpoint.models import check_destination, fit_table
    from counterpoint.report import EnsembleReport

    check_number(test_share, "--test-share", 0, 1, closed=False)
    if search and diversity is not None:
        raise ValueError("`--diversity` and `--search` must not be given together.")
    check_destination(out)
    for option, path in (("--html", html), ("--card", card)):
        if path is not None:
            check_path(path, option)
    table = read_training_table(data, target, drop=drop or (), progress=has_bars())
    if not as_json:
        _show_table(table)
    found = fit_table(
        table,
        diversity=diversity,
        search=search,
        n_learners=learners,
        epochs=epochs,
        test_share=test_share,
        random_state=seed,
        progress=has_bars(),
    )
    if not as_json:
        _show_fit(found)
    page = _write(found, out, html)
    write_card(card, EnsembleReport(found.assessment))
    if as_json:
        echo_json(
            {
                "verdict": found.verdict,
                "diversity": found.diversity,
                "assessment": found.assessment.to_dict(),
                "model": str(out),
                "report": str(page),
            }
        )


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", parser=_path, help="Model folder that fit wrote.", show_default=False
        ),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="NEW",
            parser=_path,
            help=f"{format_names(TABLE_FORMATS)}; columns are matched by name.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help=f"Write to this {format_names(WRITABLE_TABLE_FORMATS)} file instead of stdout; an existing one is "
            "replaced.",
            show_default=False,
        ),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    learners: Annotated[
        bool, typer.Option("--learners", help="Write each network's probabilities instead, for assess.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the classes of new rows with a model."""
    from counterpoint.models import load_model

    if proba and learners:
        raise ValueError("`--proba` and `--learners` must not be given together.")
    if out is not None:
        check_suffix(out, WRITABLE_TABLE_FORMATS, "--out")
    loaded = load_model(model)
    if learners and (bad := [label for label in loaded.estimator.classes_ if ":" in str(label)]):
        raise ValueError(
            f"`--learners` must not be given if a class has a colon, because columns are named learner:class; "
            f"got {str(bad[0])!r}."
        )
    found = loaded.predict(data, progress=has_bars())
    for note in found.notes:
        echo(note, err=True)
    what = "learners" if learners else "proba" if proba else "votes"
    if as_json:
        echo_json(
            {"predictions": _objects(found, what), "n_judged": found.n_judged, "n_right": found.n_right}
        )
    if out is not None or not as_json:
        _write_predictions(found, what, out)
    if n := found.n_judged:
        echo(f"{found.n_right} of {n} rows are right ({found.n_right / n:.1%}).", err=True)
    if out is not None:
        echo(f"Wrote {out}", err=True)


def _show_table(table: "TrainingTable") -> None:
    """Print the classes and the kinds of the columns."""
    import numpy as np
    from rich.table import Table

    classes, counts = np.unique(table.y, return_counts=True)
    sizes = [f"{label} ({count})" for label, count in zip(classes.tolist(), counts.tolist(), strict=True)]
    lines = {
        "rows": str(len(table.y)),
        f"classes of {table.target}": _listed(sizes),
        "numbers": _listed(table.of_kind("number")),
        "categories": _listed(table.of_kind("category")),
        "left out": _listed([f"{name} ({reason})" for name, reason in table.left_out.items()]),
    }
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in lines.items():
        if value:
            grid.add_row(as_text(label), as_text(value))
    screen = console()
    screen.print(grid)
    screen.print()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _show_fit(found: "TableFit") -> None:
    """Print the result of the search for a diversity, if any, then the assessment on the held-out rows."""
    from counterpoint.cli._screen import show_assessment

    screen = console()
    if found.verdict is not None:
        screen.print(as_text(found.verdict))
        screen.print()
    show_assessment(found.assessment)
    screen.print()
    held, rows = found.model.facts["n_held_out"], found.model.facts["n_rows"]
    kind = f"{found.assessment.n_learners} networks, diversity {found.diversity:.2g}, {found.assessment.voting} vote"
    line = f"{kind}. Assessed on {held} held-out rows; the model is trained on all {rows}."
    screen.print(as_text(line, style="dim"))


def _write(found: "TableFit", out: Path, html: Path | None) -> Path:
    """Write the model and the report, print their paths, and return that of the report."""
    from counterpoint._files import replacing
    from counterpoint.models import save_model
    from counterpoint.report import EnsembleReport

    name = found.assessment.name
    page = EnsembleReport(found.assessment, trajectories={name: found.trajectory}).html()
    save_model(found.model, out, report=page if html is None else None)
    echo(f"Wrote {out}")
    if html is not None:
        with replacing(html) as file:
            file.write(page.encode())
    path = out / "report.html" if html is None else html
    echo(f"Wrote {path}")
    return path


def _objects(found: "TablePredictions", what: str) -> list[dict[str, Any]]:
    """Return an object for each row: the prediction, and the probabilities that were asked for."""
    classes = [str(label) for label in found.classes]

    def named(proba: "FloatArray") -> dict[str, float]:
        return dict(zip(classes, proba.tolist(), strict=True))

    rows: list[dict[str, Any]] = [{"prediction": label} for label in found.labels.tolist()]
    for place, row in enumerate(rows):
        if what == "proba":
            row["probabilities"] = named(found.proba[place])
        elif what == "learners":
            row["learners"] = [named(proba) for proba in found.learners[:, place]]
    return rows


def _write_predictions(found: "TablePredictions", what: str, out: Path | None) -> None:
    """Write the rows to a file or to stdout."""
    from counterpoint.io import write_rows

    rows = chain([found.columns(what)], found.rows(what))
    if out is None:
        write_csv(rows)
    else:
        write_rows(out, rows)
