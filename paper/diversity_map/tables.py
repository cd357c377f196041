"""Findings and tables from the map of diversity."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.records import Grid, number
from counterpoint.records import markdown as in_markdown
from paper.diversity_map.analysis import (
    HIGH,
    MIDDLE,
    NONE,
    PREDICTORS,
    MapArrays,
    Predictor,
    budgets,
    choose_on_other_tables,
    displayed_arms,
    evaluate_predictor,
    gains_of,
    of_loss,
    read_map,
    reduction,
    significant,
)

NAME = "diversity-map"
# Training accuracy of independent learners below which they count as underfitting.
FITS = 0.98


def markdown(record: Mapping[str, Any]) -> str:
    """Return the findings and the tables of a record as Markdown."""
    soft, hard = read_map(record, "soft"), read_map(record, "hard")
    grids = [*map_grids(soft), *map_grids(hard), curve_grid(soft), curve_grid(hard)]
    grids += [test_grid(soft), budget_grid(soft), *predictor_grids(soft)]
    sentences = "\n".join(f"- {sentence}" for sentence in findings(soft, hard))
    start = "Smoke run. " if record["config"]["smoke"] else ""
    return f"{start}{origin(record)}\n\n{sentences}\n\n{in_markdown(grids)}"


def origin(record: Mapping[str, Any]) -> str:
    """Return a sentence on what was run, and where."""
    config = record["config"]
    runs = {part["data"]: len(part["rows"]) // config["folds"] for part in record["data"]}
    several = {name: n for name, n in runs.items() if n > 1}
    words = ", ".join(f"{n} for {name}" for name, n in several.items())
    return (
        f"{len(config['data'])} tables ({', '.join(config['data'])}); {config['folds']}-fold cross-validation, one pass"
        f"{f' (and {words})' if words else ''}; {config['steps']} steps of AdamW on all rows, learning rate "
        f"{config['learning_rate']:g}, weight decay {config['weight_decay']:g}; {record['device']}, "
        f"{record['seconds']:.0f} s."
    )


def findings(soft: MapArrays, hard: MapArrays) -> list[str]:
    """Return the findings as sentences with numbers."""
    chosen, by_count = (gains_of(arrays.gain, None) for arrays in (soft, hard))
    small, large = (reduction(chosen[:, :, h].mean()) for h in (0, -1))
    best = max(predictors(soft, None), key=lambda one: one.auc)
    return [
        f"With the diversity that is best on the other tables, learners of {_units(soft.hidden[0])} err "
        f"{change(small)} than the same learners trained independently, learners of {_units(soft.hidden[-1])} "
        f"{change(large)} (geometric mean over tables and numbers of learners).",
        f"Over the whole map that diversity takes away {_share(reduction(chosen.mean()))} % of the errors of a soft "
        f"vote, and {_share(reduction(by_count.mean()))} % of those of a hard vote.",
        *(_by_fit(soft, loss) for loss in (NONE, MIDDLE, HIGH) if loss in soft.losses),
        f"Of what can be measured on the training rows of independently trained learners, {PREDICTORS[best.name]} "
        f"has the largest AUC with all tables in sight ({best.auc:.2f}). With thresholds from the other tables its "
        f"sign is right in {best.hits} of {best.n} cells, and the rule takes away {_share(reduction(best.gain))} % "
        f"of the errors; always to use diversity is right in {int((chosen > 0).sum())} and takes away "
        f"{_share(reduction(chosen.mean()))} %, hindsight {_share(reduction(np.maximum(chosen, 0).mean()))} %.",
    ]


def _by_fit(arrays: MapArrays, loss: str) -> str:
    """Return a sentence on a diversity for learners that underfit their training rows, and for those that fit them."""
    gain, underfits = of_loss(arrays.gain, arrays.losses.index(loss)), arrays.train["learner"] < FITS
    larger = np.broadcast_to(np.array(arrays.hidden) > arrays.hidden[0], gain.shape)
    under, without, over = (_counted(gain[some]) for some in (underfits, underfits & larger, ~underfits))
    return (
        f"At diversity {loss}, learners that are right on less than {100 * FITS:g} % of their training rows when they "
        f"train independently err {under}, without those of {_units(arrays.hidden[0])} {without}; learners that fit "
        f"better than that {over}."
    )


def _counted(gains: NDArray[np.float64]) -> str:
    if not len(gains):
        return "(no cells)"
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return f"{change(reduction(gains.mean()))} (better in {better} of {len(gains)} cells, worse in {worse})"


def map_grids(arrays: MapArrays) -> list[Grid]:
    """Return the share of errors that diversity removes, by size and number of learners."""
    return [
        Grid(
            f"Errors that {name} takes away, {arrays.vote} vote, % (mean over {len(arrays.tables)} tables)",
            ["hidden units", *(f"{n} learners" for n in arrays.learners)],
            [
                [str(h), *(percent(reduction(g)) for g in gain.mean(axis=0)[:, place])]
                for place, h in enumerate(arrays.hidden)
            ],
        )
        for name, gain in (
            (name, gains_of(arrays.gain, loss)) for name, loss in displayed_arms(arrays).items()
        )
    ]


def curve_grid(arrays: MapArrays) -> Grid:
    """Return the mean error of each loss, by the size of the learners."""
    return Grid(
        f"Error of the {arrays.vote} vote in %, mean over tables and numbers of learners",
        ["hidden units", *arrays.losses],
        [
            [str(h), *(f"{100 * e:.2f}" for e in arrays.error[:, :, place].mean(axis=(0, 1)))]
            for place, h in enumerate(arrays.hidden)
        ],
    )


def test_grid(arrays: MapArrays) -> Grid:
    """Return the number of cells with a significant difference in the paired test."""
    arms: dict[str, Any] = {HIGH: arrays.losses.index(HIGH)} if HIGH in arrays.losses else {}
    arms["chosen"] = choose_on_other_tables(arrays.gain)
    signs = {name: significant(arrays, place) for name, place in arms.items()}
    n = len(arrays.tables) * len(arrays.learners)
    return Grid(
        f"Cells of {n} in which diversity pays / costs, corrected paired t-test of each cell, 5 %",
        ["hidden units", *signs],
        [
            [str(h), *(f"{(s[:, :, i] > 0).sum()} / {(s[:, :, i] < 0).sum()}" for s in signs.values())]
            for i, h in enumerate(arrays.hidden)
        ],
    )


def budget_grid(arrays: MapArrays) -> Grid:
    """Return the errors of few large and of many small learners with about the same total number of hidden units."""
    arms = {
        "independent": arrays.error[..., 0],
        "diverse": of_loss(arrays.error, choose_on_other_tables(arrays.gain)),
    }
    rows = []
    for units, cells in budgets(arrays).items():
        for n, h in cells:
            errors = [f"{100 * error[:, n, h].mean():.2f}" for error in arms.values()]
            parameters = f"{arrays.n_parameters[:, n, h].mean():,.0f}"
            rows.append(
                [f"about {units}", f"{arrays.learners[n]} of {arrays.hidden[h]}", parameters, *errors]
            )
    return Grid(
        "Error of the soft vote in %, mean over tables, at about the same number of hidden units in all",
        ["hidden units in all", "learners", "parameters", *arms],
        rows,
        n_words=2,
    )


def predictors(arrays: MapArrays, loss: int | None) -> list[Predictor]:
    """Return how well each quantity predicts the gains of a loss."""
    return [evaluate_predictor(name, arrays, loss) for name in PREDICTORS]


def predictor_grids(arrays: MapArrays) -> list[Grid]:
    """Return how well each quantity predicts the gain, for each displayed diversity."""
    return [_predictor_grid(arrays, name, loss) for name, loss in displayed_arms(arrays).items()]


def _predictor_grid(arrays: MapArrays, name: str, loss: int | None) -> Grid:
    gain = gains_of(arrays.gain, loss)
    rows = [
        [
            PREDICTORS[one.name],
            f"{one.spearman:.2f}",
            f"{one.within:.2f}",
            f"{one.auc:.2f}",
            one.pays,
            f"{one.hits} of {one.n}",
            percent(reduction(one.gain)),
        ]
        for one in predictors(arrays, loss)
    ]
    pays, n = int((gain > 0).sum()), int((gain != 0).sum())
    for words, hits, reached in (
        ("always diversity", pays, gain.mean()),
        ("never diversity", n - pays, 0.0),
        ("hindsight", n, np.maximum(gain, 0).mean()),
    ):
        rows.append([words, "", "", "", "", f"{hits} of {n}", percent(reduction(reached))])
    return Grid(
        f"What foretells the gain by {name}, from the training rows of independently trained learners",
        ["quantity", "Spearman", "inside a table", "AUC", "diversity pays", "hits", "errors taken away, %"],
        rows,
    )


def percent(share: Any) -> str:
    """Return a share in percent, with its sign."""
    return number(100 * float(share), "+.1f")


def _share(share: Any) -> str:
    return number(100 * float(share), "z.1f")


def change(share: Any) -> str:
    """Return a reduction of errors in words, as "3.0 % less"."""
    return f"{abs(100 * float(share)):.1f} % {'less' if share >= 0 else 'more'}"


def _units(count: int) -> str:
    return f"{count} hidden unit{'s' if count > 1 else ''}"
