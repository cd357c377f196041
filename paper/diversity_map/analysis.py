r"""What the map of diversity says: gains, choices that never see the table they are judged on, and what predicts them.

Notation: S tables, L numbers of learners, H numbers of hidden units, C losses, of which the first is independent
training. A gain is :math:`\ln \frac{w_0 + 1/2}{w_c + 1/2}`, with w the rows of a table that the vote of a loss gets
wrong: positive where the loss is better than independent training, and defined also where nothing is wrong.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIRST = 2  # place of the first diversity among the losses: after independent and joint training
LEVEL = 0.05
CHOSEN = "the diversity that is best on the other tables"
NONE = "0"  # the loss without its reward of difference
MIDDLE = "0.5"  # the default of the library
HIGH = "0.9"  # the diversity that is shown beside the one chosen on the other tables

# of independently trained networks, on their training rows
PREDICTORS = MappingProxyType(
    {
        "learner": "accuracy of a learner",
        "vote": "accuracy of the vote",
        "gap": "vote less learner",
        "r_tl": "r_TL",
        "r_ll": "r_LL",
        "optimality": "optimality",
    }
)

# Cells of about the same number of hidden units in all: few large learners first.
BUDGETS = MappingProxyType(
    {
        80: ((5, 16), (15, 4), (50, 2)),
        250: ((5, 64), (15, 16), (50, 4), (200, 1)),
        850: ((15, 64), (50, 16), (200, 4)),
    }
)


class Map(NamedTuple):
    """The record as arrays, for one kind of vote."""

    vote: str
    tables: list[str]
    learners: list[int]
    hidden: list[int]
    losses: list[str]
    error: NDArray[np.float64]  # (S, L, H, C), the share of wrong rows
    gain: NDArray[np.float64]  # (S, L, H, C)
    train: dict[str, NDArray[np.float64]]  # of each predictor, (S, L, H), for independent training
    folds: list[NDArray[np.float64]]  # of each table (L, H, C, folds), the share of wrong rows
    n_folds: int  # of one pass over a table
    n_parameters: NDArray[np.float64]  # (S, L, H), of an ensemble

    @property
    def diversities(self) -> list[float]:
        """Those of the losses from ``FIRST`` on."""
        return [float(loss) for loss in self.losses[FIRST:]]


class Predictor(NamedTuple):
    """How well a quantity on training rows foretells the gain."""

    name: str
    spearman: float  # with the gain, over all cells
    within: float  # the same inside a table, mean over the tables
    auc: float  # chance that it tells a cell that gains from one that loses
    threshold: float  # that of all tables together
    low: bool  # whether diversity is used below it
    hits: int  # cells whose sign is foretold by a threshold from the other tables
    n: int  # cells with a sign
    gain: float  # mean gain where diversity is used on the word of that threshold

    @property
    def pays(self) -> str:
        """Where to use diversity, in words."""
        if np.isinf(self.threshold):
            return "always" if self.low == (self.threshold > 0) else "never"
        return f"{'below' if self.low else 'above'} {self.threshold:.3f}"


def read_map(record: Mapping[str, Any], vote: str = "soft") -> Map:
    """Return the numbers of a record as arrays."""
    config = record["config"]
    tables, learners, hidden = (list(config[key]) for key in ("data", "learners", "hidden"))
    parts = {(part["data"], part["n_learners"], part["hidden"]): part for part in record["data"]}
    losses = list(record["data"][0]["wrong"][vote])
    shape = (len(tables), len(learners), len(hidden))
    error, gain = np.empty((*shape, len(losses))), np.empty((*shape, len(losses)))
    train = {key: np.empty(shape) for key in PREDICTORS if key != "gap"}
    n_parameters = np.empty(shape)
    folds = []
    for s, name in enumerate(tables):
        rates = []
        for at in np.ndindex(shape[1:]):
            part = parts[name, learners[at[0]], hidden[at[1]]]
            wrong, rows = np.array(list(part["wrong"][vote].values())), np.array(part["rows"])
            n_repeats = len(rows) / config["folds"]
            counts = wrong.sum(axis=1) / n_repeats
            error[(s, *at)] = counts * n_repeats / rows.sum()
            gain[(s, *at)] = log_gain(counts[0], counts)
            rates.append(wrong / rows)
            n_parameters[(s, *at)] = part["n_parameters"]
            for key, values in train.items():
                values[(s, *at)] = part["train"][key]["independent"]
        folds.append(np.reshape(rates, (*shape[1:], len(losses), -1)))
    train["gap"] = train["vote"] - train["learner"]
    return Map(
        vote, tables, learners, hidden, losses, error, gain, train, folds, config["folds"], n_parameters
    )


def log_gain(before: Any, after: Any) -> NDArray[np.float64]:
    """Return the gain from some wrong rows to others.

    Examples
    --------
    >>> log_gain(7.5, np.array([7.5, 3.5])).round(3)
    array([0.   , 0.693])
    """
    gain: NDArray[np.float64] = np.log((np.asarray(before) + 0.5) / (np.asarray(after) + 0.5))
    return gain


def reduction(gain: Any) -> Any:
    """Return the share of errors that a mean gain takes away.

    Examples
    --------
    >>> round(float(reduction(np.log(2))), 3), float(reduction(0.0))
    (0.5, 0.0)
    """
    return 1 - np.exp(-np.asarray(gain))


def choose(gain: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each table and size the loss, one of the diversities, with the largest mean gain on the other tables.

    Parameters
    ----------
    gain : array of shape (S, L, H, C)
        Gains.

    Returns
    -------
    array of int, shape (S, L, H)
        Places among the losses, the same for all numbers of learners.

    Examples
    --------
    >>> gains = np.zeros((3, 1, 1, 4))
    >>> gains[0, ..., 2], gains[1:, ..., 3] = 9, 1  # the first table would not listen to the others
    >>> choose(gains)[:, 0, 0].tolist()
    [3, 2, 2]
    """
    others = (gain.sum(axis=0) - gain).sum(axis=1, keepdims=True)
    chosen = FIRST + others[..., FIRST:].argmax(axis=-1)  # (S, 1, H)
    return np.broadcast_to(chosen, gain.shape[:-1])


def at(values: NDArray[np.float64], chosen: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return the numbers (S, L, H) of one loss, or of the loss that was chosen for each."""
    place = np.broadcast_to(chosen, values.shape[:-1])[..., None]
    found: NDArray[np.float64] = np.take_along_axis(values, place, axis=-1)[..., 0]
    return found


def shown(found: Map) -> dict[str, int | None]:
    """Return the places of the diversities that are shown, where they were tried; None is that chosen elsewhere."""
    fixed = {f"diversity {loss}": found.losses.index(loss) for loss in (MIDDLE, HIGH) if loss in found.losses}
    return {**fixed, CHOSEN: None}


def gains_of(gain: NDArray[np.float64], loss: int | None) -> NDArray[np.float64]:
    """Return the gains (S, L, H) of a loss, or with None of the diversity chosen on the other tables."""
    return at(gain, choose(gain) if loss is None else loss)


def significant(found: Map, chosen: NDArray[np.int64] | int) -> NDArray[np.int_]:
    """Return 1 where a loss is better than independent training, -1 where worse, 0 where it cannot be told, (S, L, H).

    By the corrected resampled t-test over the folds, at the level of 5 %, without regard to the number of cells.
    """
    from counterpoint.estimators import corrected_paired_test

    place = np.broadcast_to(chosen, found.gain.shape[:-1])
    signs = np.zeros(place.shape, dtype=int)
    for s, l, h in np.ndindex(place.shape):  # noqa: E741
        rates = found.folds[s][l, h]
        test = corrected_paired_test(rates[0] - rates[place[s, l, h]], 1 / (found.n_folds - 1))
        signs[s, l, h] = np.sign(test.difference) * (test.p_value < LEVEL)
    return signs


def threshold(values: NDArray[np.float64], gains: NDArray[np.float64]) -> tuple[float, bool]:
    """Return where to cut, and whether to take what lies below, so that the sum of the gains taken is largest.

    Examples
    --------
    >>> threshold(np.array([0.2, 0.4, 0.8, 0.9]), np.array([3.0, 1.0, -1.0, -2.0]))
    (0.6000000000000001, True)
    """
    order = np.argsort(values, kind="stable")
    v, total = values[order], np.concatenate([[0.0], np.cumsum(gains[order])])
    cuts = np.concatenate([[-np.inf], (v[1:] + v[:-1]) / 2, [np.inf]])
    between = np.concatenate([[True], v[1:] > v[:-1], [True]])  # no cut goes through equal values
    below, above = (np.where(between, t, -np.inf) for t in (total, total[-1] - total))
    low = bool(below.max() >= above.max())
    return float(cuts[(below if low else above).argmax()]), low


def takes(values: NDArray[np.float64], cut: tuple[float, bool]) -> NDArray[np.bool_]:
    """Return which values lie on the side of a threshold that is taken."""
    return values < cut[0] if cut[1] else values > cut[0]


def judge(name: str, found: Map, loss: int | None) -> Predictor:
    """Return how well one quantity of independent training foretells the gains of a loss, None for the chosen one.

    Neither a threshold nor a diversity that it rests on has seen the table that it is judged on.
    """
    from sklearn.metrics import roc_auc_score

    values, gains = found.train[name], gains_of(found.gain, loss)
    taken = np.zeros(gains.shape, dtype=bool)
    for s in range(len(gains)):
        others = np.arange(len(gains)) != s
        known = gains_of(found.gain[others], loss)
        taken[s] = takes(values[s], threshold(values[others].ravel(), known.ravel()))
    signed = gains != 0
    pays = gains[signed] > 0
    auc = roc_auc_score(pays, values[signed]) if 0 < pays.sum() < len(pays) else 0.5
    cut, low = threshold(values.ravel(), gains.ravel())
    inside = [_spearman(v, g) for v, g in zip(values, gains, strict=True)]
    return Predictor(
        name,
        spearman=_spearman(values, gains),
        within=float(np.mean(inside)),
        auc=float(max(auc, 1 - auc)),
        threshold=cut,
        low=low,
        hits=int((taken[signed] == pays).sum()),
        n=int(signed.sum()),
        gain=float(np.where(taken, gains, 0).mean()),
    )


def _spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Spearman's correlation; 0 where one of them is the same everywhere and tells nothing."""
    from scipy.stats import spearmanr

    return float(spearmanr(a.ravel(), b.ravel()).statistic) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0


def budgets(found: Map) -> dict[int, list[tuple[int, int]]]:
    """Return the cells of about the same number of hidden units in all that the map has."""
    places = {
        units: [
            (found.learners.index(n), found.hidden.index(h))
            for n, h in cells
            if n in found.learners and h in found.hidden
        ]
        for units, cells in BUDGETS.items()
    }
    return {units: cells for units, cells in places.items() if len(cells) > 1}
