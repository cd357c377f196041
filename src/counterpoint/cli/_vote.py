"""The command that writes the vote of an ensemble: vote."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoint.cli._ensembles import SelectionVoting
from counterpoint.cli._printing import echo, write_csv
from counterpoint.cli._reading import (
    Abstain,
    Drop,
    File,
    FileFormat,
    Item,
    Judge,
    Label,
    Layout,
    Learner,
    check_output,
    opened,
    read_ensemble,
    shown,
)
from counterpoint.io import (
    ARRAY_FORMATS,
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
    file_format: FileFormat = None,
    voting: SelectionVoting = "auto",
    weights: WeightsFile = None,
    out: Consensus = None,
) -> None:
    """Write the label that the learners vote for, with a confidence, for each sample."""
    from counterpoint.io import listed, read_weights

    if out is not None:
        check_suffix(out, WRITABLE_TABLE_FORMATS, "--out")
        check_output(out, [predictions, *([] if weights is None else [weights])], "--out")
    if weights is not None and (learner or drop):
        raise ValueError("`--weights` must not be given with `--learner` or `--drop`: it names the learners.")
    given = None if weights is None else read_weights(weights)
    layout = Layout(item, judge, label, file_format, abstain=abstain or ())
    read, item = _read(predictions, truth, list(given.weights) if given else learner, drop, layout)
    labels, confidences, n_tied = _consensus(predictions, read, given, voting)
    tied = f"; of {n_tied} ties the first label is written" if n_tied else ""
    if n_blank := confidences.count(""):
        tied += f"; without a vote: {n_blank}, left blank"
    who = "1 learner votes" if len(read.learners) == 1 else f"{len(read.learners)} learners vote"
    echo(f"{who}, {listed(read.learners)}{tied}.", err=True)
    rows = _rows(read, item, labels, confidences)
    if out is None:
        write_csv(rows)
        return
    from counterpoint.io import write_rows

    write_rows(out, rows)
    echo(f"Wrote {out}")


def _read(
    path: Path, truth: str | None, learner: Sequence[str] | None, drop: Sequence[str] | None, layout: Layout
) -> "tuple[Predictions, str | None]":
    """Return the predictions and the name of the column of items, which may be found by its name."""
    if path.suffix.lower() in ARRAY_FORMATS:
        return read_ensemble(path, truth, learner, drop, layout), None
    if layout.judge is not None or layout.label is not None:
        return read_ensemble(path, None, learner, drop, layout), layout.item
    from counterpoint.io import likely_items, open_table
    from counterpoint.io.sources import rereadable

    source = rereadable(opened(path))
    with open_table(source, file_format=layout.file_format) as table:
        columns = table.columns
    if not isinstance(source, Path):
        source.seek(0)
    left_out = [] if learner else [*(drop or ()), *_truths(path, truth, columns, drop or ())]
    free = [column for column in columns if column not in (*left_out, *(learner or ()))]
    item = layout.item or next(iter(likely_items(free)), None)
    return read_ensemble(path, None, learner, left_out, replace(layout, item=item), source), item


def _truths(path: Path, truth: str | None, columns: Sequence[str], drop: Sequence[str]) -> list[str]:
    """Return the columns of the truth, with a note if they were found by their names."""
    from counterpoint.io import likely_truths, listed

    if truth is not None:
        if truth not in columns:
            raise ValueError(
                f"`--truth` must be a column of {shown(path)}, one of {listed(columns)}; got {truth!r}."
            )
        return [truth]
    found = [name for name in likely_truths(columns) if name not in drop]
    if found:
        echo(f"Left out as the truth, because of the name: {listed(found)}.", err=True)
    return found


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


def _rows(
    read: "Predictions", item: str | None, labels: Sequence[Any], confidences: Sequence[float | str]
) -> Iterator[list[Any]]:
    columns: list[Sequence[Any]] = [labels, [c and f"{c:.6g}" for c in confidences]]
    names = ["consensus", "confidence"]
    if item is not None and read.items is not None:
        columns, names = [read.items.tolist(), *columns], [item, *names]
    return chain([names], map(list, zip(*columns, strict=True)))
