r"""Gains on the map of diversity, choices that never see the table they are tested on, and predictors of the gain.

Notation: S tables, L numbers of learners, H numbers of hidden units, C losses, of which the first is independent
training. A gain is :math:`\ln \frac{w_0 + 1/2}{w_c + 1/2}`, where w is the number of rows of a table that the vote of a
loss gets wrong: positive if the loss is better than independent training, and defined even if no row is wrong.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIRST_DIVERSITY = 2  # position of the first diversity among the losses, after independent and joint training
LEVEL = 0.05
CHOSEN = "the diversity that is best on the other tables"
NONE = "0"  # the loss without its term for diversity
MIDDLE = "0.5"  # the default of the library
HIGH = "0.9"  # the diversity displayed beside the one chosen on the other tables

# quantities of independently trained networks on their training rows
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

# Cells with about the same total number of hidden units: few large learners first.
BUDGETS = MappingProxyType(
    {
        80: ((5, 16), (15, 4), (50, 2)),
        250: ((5, 64), (15, 16), (50, 4), (200, 1)),
        850: ((15, 64), (50, 16), (200, 4)),
    }
)


class MapArrays(NamedTuple):
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
        """Diversities of the losses from ``FIRST_DIVERSITY`` on."""
        return [float(loss) for loss in self.losses[FIRST_DIVERSITY:]]


class Predictor(NamedTuple):
    """How well a quantity on training rows predicts the gain."""

    name: str
    spearman: float  # with the gain, over all cells
    within: float  # mean of the same within each table
    auc: float  # probability of ranking a cell that gains and one that loses correctly
    threshold: float  # from all tables together
    low: bool  # whether diversity is used below it
    hits: int  # cells whose sign a threshold from the other tables predicts
    n: int  # cells with a sign
    gain: float  # mean gain if diversity is used where that threshold says so

    @property
    def pays(self) -> str:
        """Where diversity pays, in words."""
        if np.isinf(self.threshold):
            return "always" if self.low == (self.threshold > 0) else "never"
        return f"{'below' if self.low else 'above'} {self.threshold:.3f}"


def read_map(record: Mapping[str, Any], vote: str = "soft") -> MapArrays:
    """Return the numbers of a record as arrays, for one kind of vote."""
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
    return MapArrays(
        vote, tables, learners, hidden, losses, error, gain, train, folds, config["folds"], n_parameters
    )


def log_gain(before: Any, after: Any) -> NDArray[np.float64]:
    """Return the gain from one number of wrong rows to another.

    Examples
    --------
    >>> log_gain(7.5, np.array([7.5, 3.5])).round(3)
    array([0.   , 0.693])
    """
    gain: NDArray[np.float64] = np.log((np.asarray(before) + 0.5) / (np.asarray(after) + 0.5))
    return gain


def reduction(gain: Any) -> Any:
    """Return the share of errors that a mean gain removes.

    Examples
    --------
    >>> round(float(reduction(np.log(2))), 3), float(reduction(0.0))
    (0.5, 0.0)
    """
    return 1 - np.exp(-np.asarray(gain))


def choose_on_other_tables(gain: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the diversity with the largest mean gain on the other tables, for each table and size.

    Parameters
    ----------
    gain : array of shape (S, L, H, C)
        Gains.

    Returns
    -------
    array of int, shape (S, L, H)
        Positions among the losses, the same for all numbers of learners.

    Examples
    --------
    >>> gains = np.zeros((3, 1, 1, 4))
    >>> gains[0, ..., 2], gains[1:, ..., 3] = 9, 1  # the first table has no say in its own choice
    >>> choose_on_other_tables(gains)[:, 0, 0].tolist()
    [3, 2, 2]
    """
    others = (gain.sum(axis=0) - gain).sum(axis=1, keepdims=True)
    chosen = FIRST_DIVERSITY + others[..., FIRST_DIVERSITY:].argmax(axis=-1)  # (S, 1, H)
    return np.broadcast_to(chosen, gain.shape[:-1])


def of_loss(values: NDArray[np.float64], chosen: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return the numbers (S, L, H) of one loss, or of the loss chosen for each cell."""
    position = np.broadcast_to(chosen, values.shape[:-1])[..., None]
    selected: NDArray[np.float64] = np.take_along_axis(values, position, axis=-1)[..., 0]
    return selected


def displayed_arms(arrays: MapArrays) -> dict[str, int | None]:
    """Return the positions of the diversities to display; None is the one chosen on the other tables."""
    fixed = {
        f"diversity {loss}": arrays.losses.index(loss) for loss in (MIDDLE, HIGH) if loss in arrays.losses
    }
    return {**fixed, CHOSEN: None}


def gains_of(gain: NDArray[np.float64], loss: int | None) -> NDArray[np.float64]:
    """Return the gains (S, L, H) of a loss; None is the diversity chosen on the other tables."""
    return of_loss(gain, choose_on_other_tables(gain) if loss is None else loss)


def significant(arrays: MapArrays, chosen: NDArray[np.int64] | int) -> NDArray[np.int_]:
    """Return 1 where a loss is significantly better than independent training, -1 where worse, else 0, (S, L, H).

    By the corrected resampled t-test over the folds at the 5 % level, without a correction for the number of cells.
    """
    from counterpoint.estimators import corrected_paired_test

    place = np.broadcast_to(chosen, arrays.gain.shape[:-1])
    signs = np.zeros(place.shape, dtype=int)
    for s, l, h in np.ndindex(place.shape):  # noqa: E741
        rates = arrays.folds[s][l, h]
        test = corrected_paired_test(rates[0] - rates[place[s, l, h]], 1 / (arrays.n_folds - 1))
        signs[s, l, h] = np.sign(test.difference) * (test.p_value < LEVEL)
    return signs


def threshold(values: NDArray[np.float64], gains: NDArray[np.float64]) -> tuple[float, bool]:
    """Return the threshold, and whether to select values below it, with the largest sum of selected gains.

    Examples
    --------
    >>> threshold(np.array([0.2, 0.4, 0.8, 0.9]), np.array([3.0, 1.0, -1.0, -2.0]))
    (0.6000000000000001, True)
    """
    order = np.argsort(values, kind="stable")
    v, total = values[order], np.concatenate([[0.0], np.cumsum(gains[order])])
    cuts = np.concatenate([[-np.inf], (v[1:] + v[:-1]) / 2, [np.inf]])
    between = np.concatenate([[True], v[1:] > v[:-1], [True]])  # no threshold between equal values
    below, above = (np.where(between, t, -np.inf) for t in (total, total[-1] - total))
    low = bool(below.max() >= above.max())
    return float(cuts[(below if low else above).argmax()]), low


def is_selected(values: NDArray[np.float64], cut: tuple[float, bool]) -> NDArray[np.bool_]:
    """Return True for values on the selected side of a threshold."""
    return values < cut[0] if cut[1] else values > cut[0]


def evaluate_predictor(name: str, arrays: MapArrays, loss: int | None) -> Predictor:
    """Return how well a quantity of independent training predicts the gains of a loss; None is the chosen diversity.

    Neither the threshold nor the diversity behind it has seen the table on which it is tested.
    """
    from sklearn.metrics import roc_auc_score

    values, gains = arrays.train[name], gains_of(arrays.gain, loss)
    selected = np.zeros(gains.shape, dtype=bool)
    for s in range(len(gains)):
        others = np.arange(len(gains)) != s
        known = gains_of(arrays.gain[others], loss)
        selected[s] = is_selected(values[s], threshold(values[others].ravel(), known.ravel()))
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
        hits=int((selected[signed] == pays).sum()),
        n=int(signed.sum()),
        gain=float(np.where(selected, gains, 0).mean()),
    )


def _spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Spearman's correlation, or 0 if one of them is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(a.ravel(), b.ravel()).statistic) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0


def budgets(arrays: MapArrays) -> dict[int, list[tuple[int, int]]]:
    """Return the cells of the map with about the same total number of hidden units."""
    places = {
        units: [
            (arrays.learners.index(n), arrays.hidden.index(h))
            for n, h in cells
            if n in arrays.learners and h in arrays.hidden
        ]
        for units, cells in BUDGETS.items()
    }
    return {units: cells for units, cells in places.items() if len(cells) > 1}
