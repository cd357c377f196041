"""The commands that judge predictions: assess, compare."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterpoint.cli._options import Json, Markdown
from counterpoint.cli._panels import assess_scores_with_truth, assess_without_truth, note_numbers
from counterpoint.cli._printing import echo, echo_data, has_bars
from counterpoint.cli._reading import (
    STANDARD_INPUT,
    Abstain,
    Drop,
    File,
    FileFormat,
    Files,
    Group,
    IgnoreCase,
    Item,
    Judge,
    Label,
    Layout,
    Learner,
    Truth,
    about,
    check_known,
    check_output,
    read_ensemble,
    shown,
    title,
)

if TYPE_CHECKING:
    from counterpoint.assessment import Assessment
    from counterpoint.assessment.base import AssessmentBase
    from counterpoint.io import Predictions
    from counterpoint.report import EnsembleReport

_USUAL_TRUTH = "y_true"
_SCORES = "If the learners predict numbers, add --scores."
_ONE_BY_ONE = (
    "If the learners predict numbers, run `counterpoint assess --scores` on each: only votes are compared."
)
# How the errors about labels quote a number that is none.
_FRACTION = re.compile(r"(holds? labels|holds no label|holds hardly a label).*(such as '|got )[-+]?\d*\.\d")
# Smaller work is done before anyone could read a progress bar.
_OUTPUTS_WITH_BAR = 5_000_000

NoTruth = Annotated[
    bool, typer.Option("--no-truth", help="The file holds no truth: assess how far the learners agree.")
]
Scores = Annotated[
    bool,
    typer.Option(
        "--scores", help="The learners give numbers on a scale, or probabilities of one class, not labels."
    ),
]
Voting = Annotated[
    Literal["hard", "soft", "geometric"],
    typer.Option(
        help="How the ensemble votes: most votes, mean probability, or geometric mean of probabilities."
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        metavar="PAGE",
        dir_okay=False,
        help="Write the full report to this HTML page; an existing one is replaced.",
        show_default=False,
    ),
]
Card = Annotated[
    Path | None,
    typer.Option(
        metavar="CARD",
        dir_okay=False,
        help="Write a model card in Markdown to this file; an existing one is replaced.",
        show_default=False,
    ),
]

Margin = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Difference in accuracy that does not matter, such as 0.02: is the other vote no worse by that much?",
        show_default=False,
    ),
]

SelectionVoting = Annotated[
    Literal["auto", "hard", "soft", "geometric"],
    typer.Option(help="How the ensemble votes; auto is hard for labels and soft for probabilities."),
]

ASSESS_EXAMPLES = """[b]Examples[/b]

counterpoint assess votes.csv --truth label --drop id

counterpoint assess votes.parquet --truth label --html report.html

counterpoint assess votes.jsonl --item id --judge model --label answer --truth gold --abstain skip

counterpoint assess votes.csv --no-truth

counterpoint assess ratings.csv --scores --no-truth

counterpoint assess prices.csv --scores --truth price --html report.html

zcat votes.csv.gz | counterpoint assess - --truth label

counterpoint assess probabilities.npz --voting soft --json"""

COMPARE_EXAMPLES = """[b]Examples[/b]

counterpoint compare forest.csv boosting.csv --truth label

counterpoint compare a.npz b.npz --name before --name after --html page.html

counterpoint compare old.csv new.csv --truth label --group document --margin 0.02"""


def assess(
    predictions: File,
    truth: Truth = _USUAL_TRUTH,
    learner: Learner = None,
    drop: Drop = None,
    item: Item = None,
    judge: Judge = None,
    label: Label = None,
    group: Group = None,
    abstain: Abstain = None,
    ignore_case: IgnoreCase = False,
    file_format: FileFormat = None,
    no_truth: NoTruth = False,
    scores: Scores = False,
    voting: Voting = "hard",
    name: Annotated[
        str | None,
        typer.Option(help="Name of the ensemble; by default the name of the file.", show_default=False),
    ] = None,
    html: Html = None,
    card: Card = None,
    as_json: Json = False,
    as_markdown: Markdown = False,
) -> None:
    """Assess an ensemble from its predictions: verdict, numbers, advice."""
    from counterpoint.assessment import Assessment, RegressionAssessment
    from counterpoint.report import EnsembleReport

    _check_one_format(as_json, as_markdown)
    check_output(html, [predictions], "--html")
    check_output(card, [predictions], "--card")
    layout = Layout(item, judge, label, file_format, group, abstain or (), scores, ignore_case)
    called = title(predictions) if name is None else name
    assessment: AssessmentBase
    if no_truth:
        if truth != _USUAL_TRUTH:
            raise ValueError("`--truth` and `--no-truth` must not be given together.")
        assessment = assess_without_truth(predictions, learner, drop, layout, called)
    else:
        judged = assess_scores_with_truth if scores else _assess
        with _hinting_at_no_truth(truth), _hinting_at_numbers(_SCORES):
            read = read_ensemble(predictions, truth, learner, drop, layout)
            if not scores:
                note_numbers(predictions, read, _SCORES)
            assessment = judged(predictions, read, voting, called)
    report = EnsembleReport(assessment)
    if card is not None and not isinstance(assessment, Assessment | RegressionAssessment):
        raise ValueError("`--card` needs a truth; print the text, or write a page with --html.")
    if as_markdown:
        echo_data(report.markdown())
    if as_json:
        echo_data(assessment.to_json())
    elif not as_markdown:
        from counterpoint.cli._screen import show_assessment

        show_assessment(assessment)
    _write_page(html, report)
    write_card(card, report)


def compare(
    predictions: Files,
    truth: Truth = _USUAL_TRUTH,
    drop: Drop = None,
    item: Item = None,
    judge: Judge = None,
    label: Label = None,
    group: Group = None,
    abstain: Abstain = None,
    ignore_case: IgnoreCase = False,
    file_format: FileFormat = None,
    voting: Voting = "hard",
    margin: Margin = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of each ensemble, in the order of the files; repeat the option.", show_default=False
        ),
    ] = None,
    html: Html = None,
    as_json: Json = False,
    as_markdown: Markdown = False,
) -> None:
    """Compare ensembles side by side, one file of predictions each, and test every two on the same samples."""
    from counterpoint.assessment import VoteComparison, equal_credit
    from counterpoint.report import EnsembleReport

    _check_one_format(as_json, as_markdown)
    check_output(html, predictions, "--html")
    if sum(str(path) == STANDARD_INPUT for path in predictions) > 1:
        raise ValueError(f"`{STANDARD_INPUT}`, standard input, must be given only once.")
    assessments, truths, groups, by_file = [], [], [], []
    for path, given in zip(predictions, _names(predictions, name), strict=True):
        layout = Layout(item, judge, label, file_format, group, abstain or (), ignore_case=ignore_case)
        with _hinting_at_numbers(_ONE_BY_ONE):
            read = read_ensemble(path, truth, None, drop, layout)
            note_numbers(path, read, _ONE_BY_ONE)
            check_known(read, path)
            assessments.append(_assess(path, read, voting, given))
        truths.append(read.y_true)
        groups.append(read.groups)
        assert read.y_true is not None
        by_file.append(equal_credit(read.y_true, read.outputs, read.labels, voting))
    report = EnsembleReport(assessments)
    comparison = None
    if _same_samples(predictions, truths) and len(predictions) > 1:
        names = [assessment.name for assessment in report.assessments]
        _check_same_groups(predictions, groups)
        comparison = VoteComparison.from_credits(dict(zip(names, by_file, strict=True)), groups[0], margin)
        report = EnsembleReport(report.assessments, comparison=comparison)
    if as_json:
        echo_data(report.to_json())
    elif as_markdown:
        echo_data(report.markdown())
    else:
        from counterpoint.cli._screen import show_comparison

        show_comparison(report.assessments, comparison)
    _write_page(html, report)


def _same_samples(paths: Sequence[Path], truths: Sequence[Any]) -> bool:
    """Return whether all files have the truth of the first; a warning names one that has not."""
    import numpy as np

    for path, truth in zip(paths[1:], truths[1:], strict=True):
        if not np.array_equal(truths[0], truth):
            warnings.warn(
                f"{shown(path)} and {shown(paths[0])} have different truths: were they judged on the same samples? "
                "Their votes are not tested.",
                stacklevel=2,
            )
            return False
    return True


def _check_same_groups(paths: Sequence[Path], groups: Sequence[Any]) -> None:
    import numpy as np

    for path, of_file in zip(paths[1:], groups[1:], strict=True):
        if groups[0] is not None and not np.array_equal(groups[0], of_file):
            raise ValueError(
                f"`--group` must hold the same groups in all files; {shown(path)} differs from {shown(paths[0])}."
            )


def _assess(path: Path, read: "Predictions", voting: str, name: str) -> "Assessment":
    from counterpoint.assessment import assess

    assert read.y_true is not None
    large = read.outputs.size > _OUTPUTS_WITH_BAR
    with about(path):
        return assess(
            read.y_true,
            read.outputs,
            labels=read.labels,
            voting=voting,
            learners=read.learners,
            groups=read.groups,
            name=name,
            progress=large and has_bars(),
        )


@contextmanager
def _hinting_at_no_truth(truth: str) -> Iterator[None]:
    """Say how to go on without a truth, if none was named and none is found."""
    from counterpoint.io.names import MendableError

    try:
        yield
    except ValueError as error:
        if truth == _USUAL_TRUTH and repr(truth) in str(error) and not isinstance(error, MendableError):
            raise ValueError(f"{error} If there is no truth, add --no-truth.") from error
        raise


@contextmanager
def _hinting_at_numbers(advice: str) -> Iterator[None]:
    """Say how to go on if the learners predict numbers, where a fraction is found in place of a label."""
    from counterpoint.io.names import MendableError

    try:
        yield
    except ValueError as error:
        if _FRACTION.search(str(error)) and not isinstance(error, MendableError):
            raise ValueError(f"{error} {advice}") from error
        raise


def _names(paths: Sequence[Path], chosen: Sequence[str] | None) -> list[str]:
    """Return the names that the user chose, or the shortest names of the files that differ."""
    if chosen:
        if len(chosen) != len(paths):
            raise ValueError(
                f"`--name` must be given for each of the {len(paths)} files or none; got {len(chosen)}."
            )
        return list(chosen)
    titles = [title(path) for path in paths]
    return titles if len(set(titles)) == len(set(paths)) else [shown(path) for path in paths]


def _check_one_format(as_json: bool, as_markdown: bool) -> None:
    if as_json and as_markdown:
        raise ValueError("`--json` and `--markdown` must not be given together.")


def _write_page(path: Path | None, report: "EnsembleReport") -> None:
    """Write the page and print its path."""
    if path is not None:
        echo(f"Wrote {report.write_html(path)}")


def write_card(path: Path | None, report: "EnsembleReport") -> None:
    """Write the model card and print its path."""
    from counterpoint._files import replacing

    if path is not None:
        with replacing(path) as file:
            file.write(report.model_card().encode())
        echo(f"Wrote {path}")
