"""The commands that read predictions: assess, compare, select."""

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from counterpoint.assessment import Assessment
    from counterpoint.io import Predictions
    from counterpoint.report import EnsembleReport

# Work smaller than this is done before a bar could be read.
_BYTES_WITH_BAR = 10_000_000
_OUTPUTS_WITH_BAR = 5_000_000

File = Annotated[
    Path,
    typer.Argument(
        metavar="PREDICTIONS",
        help="CSV, TSV, ARFF or Parquet with a column for each learner, or NPZ or NPY with outputs.",
        show_default=False,
    ),
]
Files = Annotated[
    list[Path],
    typer.Argument(metavar="PREDICTIONS...", help="One file for each ensemble.", show_default=False),
]
Truth = Annotated[
    str,
    typer.Option(
        "--truth", "-t", metavar="COLUMN", help="Column, or array of an NPZ, with the truth; or an NPY file."
    ),
]
Learner = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Read this learner only; may be repeated.", show_default=False),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Leave this column or learner out; may be repeated.", show_default=False
    ),
]
Voting = Annotated[
    Literal["hard", "soft", "geometric"],
    typer.Option(
        help="The vote that counts: most votes, mean probability, or geometric mean of probabilities."
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        metavar="PAGE",
        dir_okay=False,
        help="Write the whole report as one page; replaces it.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown and nothing else.")]

ASSESS_EXAMPLES = """[b]Examples[/b]

counterpoint assess votes.csv --truth label --drop id

counterpoint assess votes.parquet --truth label --html report.html

counterpoint assess probabilities.npz --voting soft --json"""

COMPARE_EXAMPLES = """[b]Examples[/b]

counterpoint compare forest.csv boosting.csv --truth label

counterpoint compare a.npz b.npz --name before --name after --html page.html"""

SELECT_EXAMPLES = """[b]Examples[/b]

counterpoint select pool.csv --truth label --size 5 --out chosen.csv

counterpoint select pool.npz --method caruana --bags 20 --seed 0 --json"""


def assess(
    predictions: File,
    truth: Truth = "y_true",
    learner: Learner = None,
    drop: Drop = None,
    voting: Voting = "hard",
    name: Annotated[
        str | None,
        typer.Option(help="Name of the ensemble; by default that of the file.", show_default=False),
    ] = None,
    html: Html = None,
    as_json: Json = False,
    as_markdown: Markdown = False,
) -> None:
    """Say where an ensemble stands, from its predictions: verdict, numbers, advice."""
    from counterpoint.report import EnsembleReport

    _check_one_format(as_json, as_markdown)
    read = _read(predictions, truth, learner, drop)
    assessment = _assess(predictions, read, voting, predictions.stem if name is None else name)
    if as_json:
        typer.echo(assessment.to_json())
    elif as_markdown:
        typer.echo(EnsembleReport(assessment).markdown())
    else:
        from counterpoint.cli._screen import show_assessment

        show_assessment(assessment)
    _write_page(html, EnsembleReport(assessment), quiet=as_json or as_markdown)


def compare(
    predictions: Files,
    truth: Truth = "y_true",
    drop: Drop = None,
    voting: Voting = "hard",
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of an ensemble, in the order of the files; repeat it.", show_default=False),
    ] = None,
    html: Html = None,
    as_json: Json = False,
    as_markdown: Markdown = False,
) -> None:
    """Put several ensembles side by side, one file of predictions for each."""
    from counterpoint.report import EnsembleReport

    _check_one_format(as_json, as_markdown)
    assessments = []
    first: Any = None
    for path, title in zip(predictions, _names(predictions, name), strict=True):
        read = _read(path, truth, None, drop)
        first = read.y_true if first is None else first
        _warn_of_other_samples(predictions[0], first, path, read.y_true)
        assessments.append(_assess(path, read, voting, title))
    report = EnsembleReport(assessments)
    if as_json:
        typer.echo(report.to_json())
    elif as_markdown:
        typer.echo(report.markdown())
    else:
        from counterpoint.cli._screen import show_comparison

        show_comparison(report.assessments)
    _write_page(html, report, quiet=as_json or as_markdown)


def select(
    predictions: File,
    truth: Truth = "y_true",
    learner: Learner = None,
    drop: Drop = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of picks; by default as many as the vote bears.", show_default=False
        ),
    ] = None,
    diversity: Annotated[
        float,
        typer.Option(
            min=0, help="How much difference counts with greedy: 0 not at all, 1 is the recommended maximum."
        ),
    ] = 0.5,
    method: Annotated[
        Literal["greedy", "caruana"], typer.Option(help="By correlations, or by the accuracy of the vote.")
    ] = "greedy",
    voting: Annotated[
        Literal["auto", "hard", "soft", "geometric"],
        typer.Option(help="The vote that counts; auto is hard for labels and soft for probabilities."),
    ] = "auto",
    bags: Annotated[
        int, typer.Option(min=0, help="Average over this many random halves of the pool, against noise.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random halves.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Write the chosen learners to this CSV, TSV or NPZ; replaces it.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose learners that are accurate and different from a pool."""
    from counterpoint.io import check_ending, stored_truth
    from counterpoint.selection import select as run

    if out is not None:
        check_ending(out, "--out")
    pool = _read(predictions, truth, learner, drop)
    with _about(predictions):
        dials: dict[str, Any] = {
            "diversity": diversity,
            "method": method,
            "voting": voting,
            "n_bags": bags,
            "random_state": seed,
        }
        selection = run(pool.y_true, pool.outputs, size, labels=pool.labels, **dials)
    if as_json:
        names = [pool.learners[index] for index in selection.indices]
        typer.echo(json.dumps({"learners": names, **selection.to_dict()}, allow_nan=False))
    else:
        from counterpoint.cli._screen import show_selection

        show_selection(selection, pool.learners)
    if out is not None:
        name = stored_truth(out, truth)
        pool.keep(selection.indices).write(out, truth=name)
        typer.echo(f"Wrote {out}{'' if name == truth else f', the truth as {name!r}'}", err=as_json)


def _read(path: Path, truth: str, learner: Sequence[str] | None, drop: Sequence[str] | None) -> "Predictions":
    from counterpoint.io import read_predictions

    large = path.is_file() and path.stat().st_size > _BYTES_WITH_BAR
    return read_predictions(
        path, truth, learners=learner or (), drop=drop or (), progress=large and sys.stderr.isatty()
    )


def _assess(path: Path, read: "Predictions", voting: str, name: str) -> "Assessment":
    from counterpoint.assessment import assess

    large = read.outputs.size > _OUTPUTS_WITH_BAR
    with _about(path):
        return assess(
            read.y_true,
            read.outputs,
            labels=read.labels,
            voting=voting,
            learners=read.learners,
            name=name,
            progress=large and sys.stderr.isatty(),
        )


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Name the file in what is wrong with its contents."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _names(paths: Sequence[Path], given: Sequence[str] | None) -> list[str]:
    """Return the given names, or those of the files: as short as tells them apart."""
    if given:
        if len(given) != len(paths):
            raise ValueError(
                f"`--name` must be given for each of the {len(paths)} files or none; got {len(given)}."
            )
        return list(given)
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(set(paths)) else [str(path) for path in paths]


def _warn_of_other_samples(first: Path, truth: Any, path: Path, other: Any) -> None:
    import numpy as np

    if not np.array_equal(truth, other):
        warnings.warn(
            f"{path} and {first} have different truths: were they judged on the same samples?", stacklevel=2
        )


def _check_one_format(as_json: bool, as_markdown: bool) -> None:
    if as_json and as_markdown:
        raise ValueError("`--json` and `--markdown` must not be given together.")


def _write_page(path: Path | None, report: "EnsembleReport", *, quiet: bool) -> None:
    """Write the page and say where: on stderr if stdout is for a program."""
    if path is not None:
        typer.echo(f"Wrote {report.write_html(path)}", err=quiet)
