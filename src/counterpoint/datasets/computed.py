"""Well-known tables that a rule defines: they are computed, so nothing is downloaded and nobody's licence applies."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.datasets._checks import check_known
from counterpoint.datasets._endgame import DRAW, endgame_positions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMPUTED", "Computed", "compute"]

Labels = NDArray[np.str_]
Numbers = NDArray[np.float64]
Made = tuple["pd.DataFrame", Labels]


class Computed(NamedTuple):
    """A table that a rule defines.

    Attributes
    ----------
    title : str
        What the table is, with the source of the rule.
    rows : int
        Number of rows.
    make : callable
        Returns the features and the labels.

    Examples
    --------
    >>> from counterpoint.datasets import COMPUTED
    >>> table = COMPUTED["balance-scale"]
    >>> X, y = table.make()
    >>> len(X) == table.rows
    True
    """

    title: str
    rows: int
    make: Callable[[], Made]


def compute(name: str) -> Made:
    """Return a table that a rule defines: features as a frame, and the labels.

    Parameters
    ----------
    name : str
        One of ``counterpoint.datasets.COMPUTED``.

    Returns
    -------
    X : pandas.DataFrame
        Numeric columns are float64, nominal ones categoricals.
    y : ndarray of str
        The label of each row.

    Notes
    -----
    Tables with random numbers are drawn with a fixed seed.

    Examples
    --------
    >>> X, y = compute("balance-scale")
    >>> X.shape, np.unique(y, return_counts=True)
    ((625, 4), (array(['B', 'L', 'R'], dtype='<U1'), array([ 49, 288, 288])))
    """
    check_known(name, "name", COMPUTED)
    return COMPUTED[name].make()


def _frame(columns: Mapping[str, NDArray[np.generic]]) -> "pd.DataFrame":
    """Return a frame in which text is nominal and numbers are float64."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Categorical(cells) if cells.dtype.kind == "U" else cells.astype(np.float64)
            for name, cells in columns.items()
        }
    )


def _numbered(values: NDArray[np.generic], prefix: str = "x") -> "pd.DataFrame":
    return _frame({f"{prefix}{i}": column for i, column in enumerate(values.T, start=1)})


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def _balance_scale() -> Made:
    """Return which side of a scale goes down, for all weights and distances from 1 to 5 (Siegler 1976)."""
    grid = np.array(list(product(range(1, 6), repeat=4)))
    columns = ("left-weight", "left-distance", "right-weight", "right-distance")
    side = np.sign(grid[:, 0] * grid[:, 1] - grid[:, 2] * grid[:, 3])
    return _frame(dict(zip(columns, grid.T, strict=True))), np.array(["R", "B", "L"])[side + 1]


def _tic_tac_toe() -> Made:
    """Return the final boards of tic-tac-toe, and whether x has won (Aha 1991)."""
    lines = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
    boards = np.array(list(product("box", repeat=9)))
    n_x, n_o = (boards == "x").sum(axis=1), (boards == "o").sum(axis=1)
    x_won, o_won = ((boards[:, lines] == player).all(axis=2).any(axis=1) for player in "xo")
    # x moves first; the winner has moved last, and a full board without a winner ends the game too
    ended = np.where(x_won, n_x == n_o + 1, np.where(o_won, n_x == n_o, n_x == 5)) & ~(x_won & o_won)
    ended &= (n_x == n_o) | (n_x == n_o + 1)
    kept = ended & (x_won | o_won | (n_o == 4))
    return _numbered(boards[kept], "square"), np.where(x_won[kept], "positive", "negative")


def _monks_2() -> Made:
    """Return the second of the MONK's problems on all robots: exactly two attributes have their first value."""
    values = np.array(list(product(*(range(1, n + 1) for n in (3, 3, 2, 3, 4, 2)))))
    return _numbered(values.astype(str), "a"), ((values == 1).sum(axis=1) == 2).astype(int).astype(str)


def _multiplexer() -> Made:
    """Return the bit that three address bits select among eight (the 11-multiplexer)."""
    bits = np.array(list(product((0, 1), repeat=11)))
    address = bits[:, :3] @ [4, 2, 1]
    return _numbered(bits), bits[np.arange(len(bits)), 3 + address].astype(str)


def _king_rook_king() -> Made:
    """Return the moves to mate of king and rook against king, black to move."""
    squares, depths = endgame_positions()
    files, ranks = np.array(list("abcdefgh")), np.array(list("12345678"))
    columns: dict[str, NDArray[np.generic]] = {}
    for piece, own in zip(("white-king", "white-rook", "black-king"), squares.T, strict=True):
        columns |= {f"{piece}-file": files[own % 8], f"{piece}-rank": ranks[own // 8]}
    return _frame(columns), np.where(depths == DRAW, "draw", depths.astype(str))


def _poker() -> Made:
    """Return the value of 25,010 random hands of poker, from 0 (nothing) to 9 (royal flush)."""
    rng = _rng("poker")
    cards = rng.random((25_010, 52)).argsort(axis=1)[:, :5]
    suits, ranks = cards // 13, np.sort(cards % 13, axis=1)  # 0 is the ace
    flush = (suits == suits[:, :1]).all(axis=1)
    royal = (ranks == [0, 9, 10, 11, 12]).all(axis=1)
    straight = (np.diff(ranks, axis=1) == 1).all(axis=1) | royal
    pairs = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=(1, 2)) - 5  # ordered pairs of equal ranks
    value = np.select(
        [
            flush & royal,
            flush & straight,
            pairs == 12,
            pairs == 8,
            flush,
            straight,
            pairs == 6,
            pairs == 4,
            pairs == 2,
        ],
        [9, 8, 7, 6, 5, 4, 3, 2, 1],
    )
    columns: dict[str, NDArray[np.generic]] = {}
    for k in range(5):
        columns |= {f"suit{k + 1}": suits[:, k].astype(str), f"rank{k + 1}": cards[:, k] % 13 + 1}
    return _frame(columns), value.astype(str)


def _led(n_random: int = 0) -> Made:
    """Return seven segments of a digit, each wrong with probability 0.1 (Breiman et al. 1984); Bayes error 26 %.

    ``n_random`` further segments are on or off at random.
    """
    rng = _rng(f"led{7 + n_random}")
    shown = (
        "1110111",
        "0010010",
        "1011101",
        "1011011",
        "0111010",
        "1101011",
        "1101111",
        "1010010",
        "1111111",
        "1111011",
    )
    segments = np.array([list(map(int, one)) for one in shown])
    digits = rng.integers(10, size=3200)
    bits = segments[digits] ^ (rng.random((3200, 7)) < 0.1)
    random = rng.integers(2, size=(3200, n_random))
    return _numbered(np.column_stack([bits, random]), "segment"), digits.astype(str)


def _waveform(n_random: int = 0) -> Made:
    """Return mixtures of two of three waves with noise (Breiman et al. 1984); Bayes error 14 %.

    ``n_random`` further numbers are noise alone.
    """
    rng, n = _rng(f"waveform-{21 + n_random}" if n_random else "waveform"), 5000
    at = np.arange(1, 22)
    waves = np.maximum(6 - abs(at - np.array([[11], [15], [7]])), 0)
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    kind, u = rng.integers(3, size=n), rng.random((n, 1))
    first, second = waves[pairs[kind, 0]], waves[pairs[kind, 1]]
    signal = np.zeros((n, 21 + n_random))
    signal[:, :21] = u * first + (1 - u) * second
    return _numbered(signal + rng.standard_normal(signal.shape)), kind.astype(str)


def _normals(name: str, centres: Numbers, kind: NDArray[np.int64], scales: Numbers) -> Made:
    """Return Gaussian rows around centres of 20 coordinates, with the scale of their class."""
    rng, n = _rng(name), 7400
    drawn = rng.integers(len(centres), size=n)
    label = kind[drawn]
    X = centres[drawn] + scales[label, None] * rng.standard_normal((n, 20))
    return _numbered(X), label.astype(str)


def _twonorm() -> Made:
    """Return two normal classes (Breiman 1996); Bayes error 2.3 %."""
    a = np.full((1, 20), 2 / np.sqrt(20))
    return _normals("twonorm", np.concatenate([a, -a]), np.array([0, 1]), np.ones(2))


def _threenorm() -> Made:
    """Return a class of two normal clouds and a class between them (Breiman 1996); Bayes error 10.5 %."""
    a = 2 / np.sqrt(20)
    turned = np.where(np.arange(20) % 2, -a, a)
    centres = np.stack([np.full(20, a), np.full(20, -a), turned, turned])
    return _normals("threenorm", centres, np.array([0, 0, 1, 1]), np.ones(2))


def _ringnorm() -> Made:
    """Return a wide normal class and a narrow one inside it (Breiman 1996); Bayes error 1.3 %."""
    centres = np.stack([np.zeros(20), np.full(20, 1 / np.sqrt(20))])
    return _normals("ringnorm", centres, np.array([0, 1]), np.array([2.0, 1.0]))


def _loans() -> Made:
    """Return applicants for loans, by the seventh function of Agrawal, Imielinski and Swami (1993)."""
    rng, n = _rng("agrawal-7"), 20_000
    salary = rng.uniform(20_000, 150_000, n)
    commission = np.where(salary >= 75_000, 0, rng.uniform(10_000, 75_000, n))
    zipcode = rng.integers(9, size=n)
    loan = rng.uniform(0, 500_000, n)
    group = 0.67 * (salary + commission) - 0.2 * loan - 20_000 > 0
    columns = {
        "salary": salary,
        "commission": commission,
        "age": rng.uniform(20, 80, n),
        "education": rng.integers(5, size=n).astype(str),
        "car": rng.integers(1, 21, size=n).astype(str),
        "zipcode": zipcode.astype(str),
        "house-value": rng.uniform(0.5, 1.5, n) * 100_000 * (9 - zipcode),
        "house-years": rng.uniform(1, 30, n),
        "loan": loan,
    }
    for name, width in (("salary", 130_000), ("commission", 65_000), ("loan", 500_000)):
        noisy = columns[name] + 0.05 * width * rng.uniform(-1, 1, n)  # the label is of the exact values
        columns[name] = np.where(columns[name] == 0, 0, noisy)
    return _frame(columns), np.where(group, "A", "B")


COMPUTED: Mapping[str, Computed] = MappingProxyType(
    {
        "monks-2": Computed("MONK's problem 2, all 432 robots (Thrun et al. 1991)", 432, _monks_2),
        "balance-scale": Computed("Balance Scale (Siegler 1976)", 625, _balance_scale),
        "tic-tac-toe": Computed("Tic-Tac-Toe Endgame (Aha 1991)", 958, _tic_tac_toe),
        "multiplexer-11": Computed("11-multiplexer, all 2,048 inputs", 2048, _multiplexer),
        "led7": Computed("LED display, 10 % noise (Breiman et al. 1984)", 3200, _led),
        "led24": Computed(
            "LED display, 10 % noise, 17 random segments (Breiman et al. 1984)", 3200, partial(_led, 17)
        ),
        "waveform": Computed("Waveform, 21 numbers (Breiman et al. 1984)", 5000, _waveform),
        "waveform-40": Computed(
            "Waveform, 21 numbers and 19 of noise (Breiman et al. 1984)", 5000, partial(_waveform, 19)
        ),
        "twonorm": Computed("Twonorm (Breiman 1996)", 7400, _twonorm),
        "threenorm": Computed("Threenorm (Breiman 1996)", 7400, _threenorm),
        "ringnorm": Computed("Ringnorm (Breiman 1996)", 7400, _ringnorm),
        "agrawal-7": Computed("Loans, function 7 (Agrawal et al. 1993)", 20_000, _loans),
        "poker": Computed("Poker Hand (Cattral and Oppacher 2002)", 25_010, _poker),
        "krkopt": Computed(
            "King and rook against king, moves to mate (Bain and Hoff 1994)", 28_056, _king_rook_king
        ),
    }
)
