"""The commands that make a model of a table and use it: fit, predict."""

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from counterpoint.models import TableFit, TablePredictions, TrainingTable

_ENDINGS = {".csv": ",", ".tsv": "\t"}
# Names that are listed on the screen; the model's JSON has them all.
_NAMES_SHOWN = 8

FIT_EXAMPLES = """[b]Examples[/b]

counterpoint fit animals.csv --target species --drop id

counterpoint fit animals.parquet --target species --search --out model"""

PREDICT_EXAMPLES = """[b]Examples[/b]

counterpoint predict model new.csv --out predictions.csv --proba

counterpoint predict model judged.csv --learners --out learners.csv

counterpoint assess learners.csv --truth species --voting geometric"""


def _path(text: str | Path) -> Path:
    """Return a path; an empty one, as of a variable that is not set, would mean the current folder."""
    if not str(text):
        raise typer.BadParameter("a path must not be empty.")
    return Path(text)


_DATA = typer.Argument(
    metavar="DATA",
    parser=_path,
    help="CSV, TSV, ARFF or Parquet with a row for each sample.",
    show_default=False,
)
_TARGET = typer.Option("--target", "-t", metavar="COLUMN", help="Column of the classes.", show_default=False)
_FOLDER = typer.Option(
    metavar="FOLDER", parser=_path, help="Folder of the model; one that is there is replaced."
)
_DROP = typer.Option(metavar="COLUMN", help="Leave this column out; may be repeated.", show_default=False)
_DIVERSITY = typer.Option(
    min=0,
    max=1,
    metavar="NUMBER",
    help="Weight of diversity in the loss, from 0 (independent networks) to 1.",
    show_default="1 - 1 / learners",
)
_SEARCH = typer.Option(
    "--search", help="Choose the diversity by cross-validation, and say whether diversity pays."
)
_PAGE = typer.Option(
    metavar="PAGE",
    dir_okay=False,
    help="Write the report here and not into the model.",
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
    test_share: Annotated[float, typer.Option(help="Share of the rows that is held out to judge by.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random draw.")] = 0,
    html: Annotated[Path | None, _PAGE] = None,
) -> None:
    """Train networks on a table, judge them on rows held out, and save a model."""
    from counterpoint._validation import check_number
    from counterpoint.models import check_destination, fit_table, read_training_table

    check_number(test_share, "--test-share", 0, 1, closed=False)
    if search and diversity is not None:
        raise ValueError("`--diversity` and `--search` must not be given together.")
    check_destination(out)
    terminal = sys.stderr.isatty()
    table = read_training_table(data, target, drop=drop or (), progress=terminal)
    _show_table(table)
    found = fit_table(
        table,
        diversity=diversity,
        search=search,
        n_learners=learners,
        epochs=epochs,
        test_share=test_share,
        random_state=seed,
        progress=terminal,
    )
    _show_fit(found)
    _write(found, out, html)


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", parser=_path, help="Folder that fit wrote.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="NEW",
            parser=_path,
            help="CSV, TSV, ARFF or Parquet; columns are found by name.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Write to this CSV or TSV and not to stdout; replaces it.",
            show_default=False,
        ),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    learners: Annotated[
        bool, typer.Option("--learners", help="Write each network's probabilities instead, for assess.")
    ] = False,
) -> None:
    """Predict the classes of new rows with a model."""
    from counterpoint.models import load_model

    if proba and learners:
        raise ValueError("`--proba` and `--learners` must not be given together.")
    if out is not None and out.suffix.lower() not in _ENDINGS:
        raise ValueError(f"`--out` must end in one of {', '.join(_ENDINGS)}; got {str(out)!r}.")
    loaded = load_model(model)
    if learners and (bad := [label for label in loaded.estimator.classes_ if ":" in str(label)]):
        raise ValueError(
            f"`--learners` must not be given where a class has a colon, for the columns are named learner:class; "
            f"got {str(bad[0])!r}."
        )
    found = loaded.predict(data, progress=sys.stderr.isatty())
    for note in found.notes:
        typer.echo(note, err=True)
    _write_predictions(found, "learners" if learners else "proba" if proba else "votes", out)
    if n := found.n_judged:
        typer.echo(f"{found.n_right} of {n} rows are right ({found.n_right / n:.1%}).", err=True)
    if out is not None:
        typer.echo(f"Wrote {out}", err=True)


def _show_table(table: "TrainingTable") -> None:
    """Print what was taken for what."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
            grid.add_row(Text(label), Text(value))
    console = Console()
    console.print(grid)
    console.print()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _show_fit(found: "TableFit") -> None:
    """Print what cross-validation said of diversity, then the assessment of the rows held out."""
    from rich.console import Console
    from rich.text import Text

    from counterpoint.cli._screen import show_assessment

    console = Console()
    if found.verdict is not None:
        console.print(Text(found.verdict))
        if found.diversity == 0:
            choice = "Chosen: independent training, for no diversity leads by more than the standard error."
        else:
            choice = f"Chosen: diversity {found.diversity:g}, for it leads by more than the standard error."
        console.print(Text(choice, style="bold"))
        console.print()
    show_assessment(found.assessment)
    console.print()
    held, rows = found.model.facts["n_held_out"], found.model.facts["n_rows"]
    kind = f"{found.assessment.n_learners} networks, diversity {found.diversity:.2g}, {found.assessment.voting} vote"
    line = f"{kind}. Judged on {held} rows held out of training; the model is trained on all {rows}."
    console.print(Text(line, style="dim"))


def _write(found: "TableFit", out: Path, html: Path | None) -> None:
    """Write the model and the report, and say where."""
    from counterpoint._files import replacing
    from counterpoint.models import save_model
    from counterpoint.report import EnsembleReport

    name = found.assessment.name
    page = EnsembleReport(found.assessment, trajectories={name: found.trajectory}).html()
    save_model(found.model, out, report=page if html is None else None)
    typer.echo(f"Wrote {out}")
    if html is not None:
        with replacing(html) as file:
            file.write(page.encode())
    typer.echo(f"Wrote {out / 'report.html' if html is None else html}")


def _write_predictions(found: "TablePredictions", what: str, out: Path | None) -> None:
    """Write the rows to a file, whole or not at all, or to stdout."""
    from io import TextIOWrapper

    from counterpoint._files import replacing

    if out is None:
        _write_rows(sys.stdout, found, what, ",")
        return
    with replacing(out) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        _write_rows(text, found, what, _ENDINGS[out.suffix.lower()])
        text.flush()
        text.detach()  # the file is closed by who opened it


def _write_rows(file: TextIO, found: "TablePredictions", what: str, delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(found.columns(what))
    writer.writerows(found.rows(what))
