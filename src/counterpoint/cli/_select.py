"""The command that chooses from a pool: select."""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterpoint.cli._ensembles import SelectionVoting
from counterpoint.cli._options import Json
from counterpoint.cli._printing import echo, echo_json
from counterpoint.cli._reading import (
    Drop,
    File,
    FileFormat,
    Group,
    IgnoreCase,
    Item,
    Judge,
    Label,
    Layout,
    Learner,
    Truth,
    about,
    check_complete,
    check_known,
    check_output,
    read_ensemble,
)
from counterpoint.io import WRITABLE_FORMATS, check_suffix, format_names

if TYPE_CHECKING:
    from counterpoint.io import Predictions
    from counterpoint.selection import Selection

_LARGEST_COSTS = 2**24  # bytes
_FIGURES = (".png", ".svg", ".pdf")

Size = Annotated[
    str,
    typer.Option(
        metavar="NUMBER|smallest|largest",
        help="Number of picks, or the smallest or the largest panel within the noise of the best.",
    ),
]
Within = Annotated[
    float,
    typer.Option(min=0, help="What smallest counts as noise, in standard errors; more makes panels smaller."),
]
Method = Annotated[
    Literal["pursuit", "greedy", "caruana"],
    typer.Option(
        help="Choose by the squared error of the weighted vote (pursuit), by correlations (greedy) or by the accuracy "
        "of the vote (caruana)."
    ),
]
Diversity = Annotated[
    float,
    typer.Option(
        min=0, help="Weight of diversity in the greedy method: 0 ignores it, 1.0 is the recommended maximum."
    ),
]
Costs = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|NAME=NUMBER,...",
        help="Cost of each learner: pairs, a JSON object, or a CSV file with a row of name and cost for each; by "
        "default each costs 1.",
        show_default=False,
    ),
]
Chosen = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help=f"Write the chosen learners to this {format_names(WRITABLE_FORMATS)} file, and their weights to FILE"
        ".weights.json; existing ones are replaced.",
        show_default=False,
    ),
]
Figure = Annotated[
    Path | None,
    typer.Option(
        metavar="PICTURE",
        dir_okay=False,
        help="Draw accuracy against cost to this PNG, SVG or PDF file; an existing one is replaced.",
        show_default=False,
    ),
]

EXAMPLES = """[b]Examples[/b]

counterpoint select pool.csv --truth label --out chosen.csv

counterpoint select judges.csv --truth label --costs fast=1,slow=8,human=40 --figure frontier.png

counterpoint select pool.npz --size 5 --method greedy --json"""


def select(
    predictions: File,
    truth: Truth = "y_true",
    learner: Learner = None,
    drop: Drop = None,
    item: Item = None,
    judge: Judge = None,
    label: Label = None,
    group: Group = None,
    ignore_case: IgnoreCase = False,
    file_format: FileFormat = None,
    size: Size = "smallest",
    within: Within = 0.75,
    method: Method = "pursuit",
    diversity: Diversity = 0.5,
    voting: SelectionVoting = "auto",
    costs: Costs = None,
    out: Chosen = None,
    figure: Figure = None,
    as_json: Json = False,
) -> None:
    """Choose the learners of a pool that are worth keeping: who stays, what each brings, what a panel costs."""
    from counterpoint.selection import select as run

    prices = None if costs is None else read_costs(costs)
    inputs = [predictions, *([] if costs is None or _are_pairs(costs) else [Path(costs)])]
    _check_outputs(out, figure, inputs)
    layout = Layout(item, judge, label, file_format, group, ignore_case=ignore_case)
    pool = read_ensemble(predictions, truth, learner, drop, layout)
    check_complete(pool, predictions)
    check_known(pool, predictions)
    assert pool.y_true is not None
    with about(predictions):
        selection = run(
            pool.y_true,
            pool.outputs,
            int(size) if size.lstrip("-").isdigit() else size,
            labels=pool.labels,
            learners=pool.learners,
            within=within,
            method=method,
            diversity=diversity,
            voting=voting,
            costs=prices,
            groups=pool.groups,
        )
    if as_json:
        echo_json({"chosen": list(selection.chosen), **selection.to_dict()})
    else:
        from counterpoint.cli._screen import show_selection

        show_selection(selection)
    if out is not None:
        _write_chosen(pool.keep(selection.indices), selection, out, truth, item)
    if figure is not None:
        _draw(selection, figure)


def read_costs(given: str) -> dict[str, float]:
    """Return the costs by name, from pairs such as ``a=1,b=2.5``, a JSON object or a CSV file."""
    from counterpoint._validation import short

    if _are_pairs(given):
        pairs: Sequence[Sequence[Any]] = [part.rsplit("=", 1) for part in given.split(",")]
    else:
        pairs = _pairs_in_file(Path(given))
    costs: dict[str, float] = {}
    for pair in pairs:
        if len(pair) != 2 or not _is_number(pair[1]):
            got = short(",".join(map(str, pair)))
            raise ValueError(f"`--costs` must give a name and a number for each learner; got {got}.")
        name = str(pair[0]).strip()
        if name in costs:
            raise ValueError(f"`--costs` must name each learner once; got {short(name)} twice.")
        costs[name] = float(pair[1])
    return costs


def _pairs_in_file(path: Path) -> Sequence[Sequence[Any]]:
    from counterpoint._files import read_bounded

    content = read_bounded(path, _LARGEST_COSTS)
    try:
        if path.suffix.lower() == ".json":
            data = json.loads(content)
            if not isinstance(data, dict):
                raise ValueError("no object")
            return list(data.items())
        lines = StringIO(content.decode("utf-8-sig"), newline="")
        pairs = [row for row in csv.reader(lines) if row]
    except (ValueError, RecursionError, csv.Error):
        kind = "a JSON object" if path.suffix.lower() == ".json" else "a CSV file"
        raise ValueError(f"{path} must hold {kind} of names and costs.") from None
    return pairs[1:] if pairs and not _is_number(pairs[0][-1]) else pairs  # without a header


def _are_pairs(given: str) -> bool:
    """Return whether costs are given as pairs; a file may have an equals sign in its name."""
    try:
        return "=" in given and not Path(given).exists()
    except OSError:  # too long for the name of a file
        return True


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _check_outputs(out: Path | None, figure: Path | None, inputs: Sequence[Path]) -> None:
    if out is not None:
        check_suffix(out, WRITABLE_FORMATS, "--out")
        check_output(out, inputs, "--out")
        check_output(_sidecar(out), inputs, "--out")
    if figure is not None:
        if figure.suffix.lower() not in _FIGURES:
            raise ValueError(f"`--figure` must end in .png, .svg or .pdf; got {str(figure)!r}.")
        check_output(figure, inputs, "--figure")


def _sidecar(out: Path) -> Path:
    return out.with_name(f"{out.name}.weights.json")


def _write_chosen(
    chosen: "Predictions", selection: "Selection", out: Path, truth: str, item: str | None
) -> None:
    """Write the predictions of the chosen learners and their weights, and print the paths."""
    from counterpoint.io import VoteWeights, storable_truth

    name = storable_truth(out, truth)
    chosen.write(out, truth=name, item=None if out.suffix.lower() == ".npz" else item)
    echo(f"Wrote {out}{'' if name == truth else f', the truth as {name!r}'}")
    weights = dict(zip(chosen.learners, selection.weights.round(6).tolist(), strict=True))
    VoteWeights(weights, selection.voting).write(_sidecar(out))
    echo(f"Wrote {_sidecar(out)}")


def _draw(selection: "Selection", figure: Path) -> None:
    """Draw the frontier, and print the path."""
    from matplotlib.figure import Figure as Canvas

    from counterpoint.plots import FrontierDisplay, house_style

    with house_style():
        canvas = Canvas(figsize=(6.4, 4.4))
        FrontierDisplay.from_selection(selection, ax=canvas.subplots())
        figure.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(figure)
    echo(f"Wrote {figure}")
