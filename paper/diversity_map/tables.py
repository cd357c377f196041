"""The map of diversity in words and tables."""

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
    Map,
    Predictor,
    at,
    budgets,
    choose,
    gains_of,
    judge,
    read_map,
    reduction,
    shown,
    significant,
)

NAME = "diversity-map"
# Training accuracy of independent learners that tells those that underfit from those that fit, for the record's table.
FITS = 0.98


def markdown(record: Mapping[str, Any]) -> str:
    """Return the findings and the tables of a record as Markdown."""
    soft, hard = read_map(record, "soft"), read_map(record, "hard")
    grids = [*map_grids(soft), *map_grids(hard), curve_grid(soft), curve_grid(hard)]
    grids += [test_grid(soft), budget_grid(soft), *predictor_grids(soft)]
    said = "\n".join(f"- {sentence}" for sentence in findings(soft, hard))
    start = "Smoke run. " if record["config"]["smoke"] else ""
    return f"{start}{origin(record)}\n\n{said}\n\n{in_markdown(grids)}"


def origin(record: Mapping[str, Any]) -> str:
    """Return what was run, on what, in a sentence."""
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


def findings(soft: Map, hard: Map) -> list[str]:
    """Return what the map says, in sentences with numbers."""
    chosen, by_count = (gains_of(found.gain, None) for found in (soft, hard))
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


def _by_fit(found: Map, loss: str) -> str:
    """Return what a diversity does to learners that underfit their training rows, and to those that fit them."""
    gain, underfits = at(found.gain, found.losses.index(loss)), found.train["learner"] < FITS
    larger = np.broadcast_to(np.array(found.hidden) > found.hidden[0], gain.shape)
    under, without, over = (_counted(gain[some]) for some in (underfits, underfits & larger, ~underfits))
    return (
        f"At diversity {loss}, learners that are right on less than {100 * FITS:g} % of their training rows when they "
        f"train independently err {under}, without those of {_units(found.hidden[0])} {without}; learners that fit "
        f"better than that {over}."
    )


def _counted(gains: NDArray[np.float64]) -> str:
    if not len(gains):
        return "(no cells)"
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return f"{change(reduction(gains.mean()))} (better in {better} of {len(gains)} cells, worse in {worse})"


def map_grids(found: Map) -> list[Grid]:
    """Return the share of errors that diversity takes away, by size and number of learners."""
    return [
        Grid(
            f"Errors that {way} takes away, {found.vote} vote, % (mean over {len(found.tables)} tables)",
            ["hidden units", *(f"{n} learners" for n in found.learners)],
            [
                [str(h), *(percent(reduction(g)) for g in gain.mean(axis=0)[:, place])]
                for place, h in enumerate(found.hidden)
            ],
        )
        for way, gain in ((way, gains_of(found.gain, loss)) for way, loss in shown(found).items())
    ]


def curve_grid(found: Map) -> Grid:
    """Return the mean error of each loss, by the size of the learners."""
    return Grid(
        f"Error of the {found.vote} vote in %, mean over tables and numbers of learners",
        ["hidden units", *found.losses],
        [
            [str(h), *(f"{100 * e:.2f}" for e in found.error[:, :, place].mean(axis=(0, 1)))]
            for place, h in enumerate(found.hidden)
        ],
    )


def test_grid(found: Map) -> Grid:
    """Return in how many cells the paired test tells a difference."""
    ways: dict[str, Any] = {HIGH: found.losses.index(HIGH)} if HIGH in found.losses else {}
    ways["chosen"] = choose(found.gain)
    signs = {way: significant(found, place) for way, place in ways.items()}
    n = len(found.tables) * len(found.learners)
    return Grid(
        f"Cells of {n} in which diversity pays / costs, corrected paired t-test, 5 %",
        ["hidden units", *signs],
        [
            [str(h), *(f"{(s[:, :, i] > 0).sum()} / {(s[:, :, i] < 0).sum()}" for s in signs.values())]
            for i, h in enumerate(found.hidden)
        ],
    )


def budget_grid(found: Map) -> Grid:
    """Return the errors of few large and of many small learners with about as many hidden units in all."""
    ways = {"independent": found.error[..., 0], "diverse": at(found.error, choose(found.gain))}
    rows = []
    for units, cells in budgets(found).items():
        for n, h in cells:
            errors = [f"{100 * error[:, n, h].mean():.2f}" for error in ways.values()]
            parameters = f"{found.n_parameters[:, n, h].mean():,.0f}"
            rows.append([f"about {units}", f"{found.learners[n]} of {found.hidden[h]}", parameters, *errors])
    return Grid(
        "Error of the soft vote in %, mean over tables, at about the same number of hidden units in all",
        ["hidden units in all", "learners", "parameters", *ways],
        rows,
        n_words=2,
    )


def predictors(found: Map, loss: int | None) -> list[Predictor]:
    """Return how well each quantity foretells the gains of a loss."""
    return [judge(name, found, loss) for name in PREDICTORS]


def predictor_grids(found: Map) -> list[Grid]:
    """Return how well each quantity foretells the gain, at each diversity that is shown."""
    return [_predictor_grid(found, way, loss) for way, loss in shown(found).items()]


def _predictor_grid(found: Map, way: str, loss: int | None) -> Grid:
    gain = gains_of(found.gain, loss)
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
        for one in predictors(found, loss)
    ]
    pays, n = int((gain > 0).sum()), int((gain != 0).sum())
    for words, hits, reached in (
        ("always diversity", pays, gain.mean()),
        ("never diversity", n - pays, 0.0),
        ("hindsight", n, np.maximum(gain, 0).mean()),
    ):
        rows.append([words, "", "", "", "", f"{hits} of {n}", percent(reduction(reached))])
    return Grid(
        f"What foretells the gain by {way}, from the training rows of independently trained learners",
        ["quantity", "Spearman", "inside a table", "AUC", "diversity pays", "hits", "errors taken away, %"],
        rows,
    )


def percent(share: Any) -> str:
    """Return a share in percent, with its sign."""
    return number(100 * float(share), "+.1f")


def _share(share: Any) -> str:
    return number(100 * float(share), "z.1f")


def change(share: Any) -> str:
    """Return in words how much less is made of errors of which a share is taken away."""
    return f"{abs(100 * float(share)):.1f} % {'less' if share >= 0 else 'more'}"


def _units(count: int) -> str:
    return f"{count} hidden unit{'s' if count > 1 else ''}"
