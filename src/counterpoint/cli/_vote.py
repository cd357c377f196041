"""The command that writes the vote of an ensemble: vote."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterpoint.cli._ensembles import SelectionVoting
from counterpoint.cli._options import Json
from counterpoint.cli._printing import echo, echo_json, write_csv
from counterpoint.cli._reading import (
    Abstain,
    Drop,
    File,
    FileFormat,
    IgnoreCase,
    Item,
    Judge,
    Label,
    Layout,
    Learner,
    about,
    check_output,
    shown,
)
from counterpoint.cli._unlabelled import read_unlabelled
from counterpoint.io import (
    WRITABLE_TABLE_FORMATS,
    check_suffix,
    format_names,
)

if TYPE_CHECKING:
    from counterpoint.io import Predictions, VoteWeights

WeightsFile = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="JSON file with the learners that vote and their weights, such as select writes; by default all learners "
        "have the same weight.",
        show_default=False,
    ),
]
Consensus = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help=f"Write to this {format_names(WRITABLE_TABLE_FORMATS)} file instead of stdout; an existing one is "
        "replaced.",
        show_default=False,
    ),
]
Method = Annotated[
    Literal["vote", "dawid-skene"],
    typer.Option(
        help="Count the votes, or weigh them by the accuracies that Dawid and Skene's model estimates from them; "
        "copies count as one learner."
    ),
]
OptionalTruth = Annotated[
    str | None,
    typer.Option(
        "--truth",
        "-t",
        metavar="COLUMN",
        help="Column of the truth, which does not vote; by default the columns with a usual name, such as label.",
        show_default=False,
    ),
]

EXAMPLES = """[b]Examples[/b]

counterpoint vote votes.csv --out consensus.csv

counterpoint vote votes.jsonl --item id --judge model --label answer

counterpoint vote votes.csv --method dawid-skene

counterpoint vote pool.csv --weights chosen.csv.weights.json --out consensus.csv"""


def vote(
    predictions: File,
    truth: OptionalTruth = None,
    learner: Learner = None,
    drop: Drop = None,
    item: Item = None,
    judge: Judge = None,
    label: Label = None,
    abstain: Abstain = None,
    ignore_case: IgnoreCase = False,
    file_format: FileFormat = None,
    voting: SelectionVoting = "auto",
    method: Method = "vote",
    weights: WeightsFile = None,
    out: Consensus = None,
    as_json: Json = False,
) -> None:
    """Write the label that the learners vote for, with a confidence, for each sample."""
    from counterpoint.io import listed, read_weights

    if out is not None:
        check_suffix(out, WRITABLE_TABLE_FORMATS, "--out")
        check_output(out, [predictions, *([] if weights is None else [weights])], "--out")
    if weights is not None and (learner or drop):
        raise ValueError("`--weights` must not be given with `--learner` or `--drop`: it names the learners.")
    estimate = method == "dawid-skene"
    if estimate and (weights is not None or voting not in ("auto", "hard")):
        raise ValueError("`--method dawid-skene` must not be given with `--weights` or `--voting`.")
    given = None if weights is None else read_weights(weights)
    layout = Layout(item, judge, label, file_format, abstain=abstain or (), ignore_case=ignore_case)
    names = list(given.weights) if given else learner
    read, item = read_unlabelled(predictions, truth, names, drop, layout)
    labels, confidences, n_tied = (
        _estimate(predictions, read) if estimate else _consensus(predictions, read, given, voting)
    )
    tied = f"; of {n_tied} ties the first label is written" if n_tied else ""
    if n_blank := confidences.count(""):
        tied += f"; without a vote: {n_blank}, left blank"
    who = "1 learner votes" if len(read.learners) == 1 else f"{len(read.learners)} learners vote"
    echo(f"{who}, {listed(read.learners)}{tied}.", err=True)
    if as_json:
        summary = {"learners": list(read.learners), "n_tied": n_tied, "n_without_vote": n_blank}
        echo_json(summary | {"votes": _votes(read, item, labels, confidences)})
    rows = _rows(read, item, labels, confidences)
    if out is not None:
        from counterpoint.io import write_rows

        write_rows(out, rows)
        echo(f"Wrote {out}")
    elif not as_json:
        write_csv(rows)


def _estimate(path: Path, read: "Predictions") -> tuple[list[Any], list[float | str], int]:
    """Return the consensus of Dawid and Skene's model and its probabilities, with what they are worth on stderr."""
    from counterpoint.assessment import assess

    with about(path):
        found = assess(read.outputs, labels=read.labels, learners=read.learners)
    for finding in found.findings:
        if finding.code in ("families", "close_pairs", "shared_errors", "no_agreement"):
            echo(finding.text, err=True)
    if not math.isnan(found.bounds.consensus.low):
        echo(f"The consensus is right on {found.bounds.in_words()}.", err=True)
    return list(found.consensus), found.confidence.tolist(), 0


def _consensus(
    path: Path, read: "Predictions", given: "VoteWeights | None", voting: str
) -> tuple[list[Any], list[float | str], int]:
    """Return the winners, their shares of the vote, both blank where nobody voted, and the number of ties."""
    import numpy as np

    from counterpoint._validation import check_weights
    from counterpoint.outputs import Outputs, split_missing, vote_probabilities, winners

    classes = read.labels
    if classes is None and read.y_true is not None and read.outputs.ndim == 3:
        classes = np.unique(read.y_true)
    array, missing = split_missing(read.outputs)
    outputs = Outputs(array, labels=classes, missing=missing)
    if voting == "auto":
        voting = (given and given.voting) or ("hard" if outputs.probabilities is None else "soft")
    if voting != "hard" and outputs.probabilities is None:
        raise ValueError(
            f"{shown(path)}: `voting` must be 'hard' where learners have labels; got {voting!r}."
        )
    shares = None if given is None else [given.weights[name] for name in read.learners]
    proba = vote_probabilities(outputs, check_weights(shares, "weights", outputs.n_learners), voting)
    leading = winners(proba.T)
    labels = outputs.classes[leading.argmax(axis=0)].tolist()
    confidences: list[float | str] = proba.max(axis=1).tolist()
    for sample in np.flatnonzero(np.isnan(proba[:, 0])).tolist():
        labels[sample], confidences[sample] = "", ""
    return labels, confidences, int((leading.sum(axis=0) > 1).sum())


def _votes(
    read: "Predictions", item: str | None, labels: Sequence[Any], confidences: Sequence[float | str]
) -> list[dict[str, Any]]:
    """Return an object for each sample; label and confidence are null where nobody voted."""
    votes: list[dict[str, Any]] = [
        {"consensus": None, "confidence": None} if share == "" else {"consensus": label, "confidence": share}
        for label, share in zip(labels, confidences, strict=True)
    ]
    if item is None or read.items is None:
        return votes
    return [{item: name} | one for name, one in zip(read.items.tolist(), votes, strict=True)]


def _rows(
    read: "Predictions", item: str | None, labels: Sequence[Any], confidences: Sequence[float | str]
) -> Iterator[list[Any]]:
    columns: list[Sequence[Any]] = [labels, [c and f"{c:.6g}" for c in confidences]]
    names = ["consensus", "confidence"]
    if item is not None and read.items is not None:
        columns, names = [read.items.tolist(), *columns], [item, *names]
    return chain([names], map(list, zip(*columns, strict=True)))
