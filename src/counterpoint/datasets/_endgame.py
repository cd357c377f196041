"""King and rook against king: the moves to mate of all positions, by going backwards from the mates."""

from itertools import product

import numpy as np
from numpy.typing import NDArray

__all__ = ["DRAW", "endgame_positions"]

DRAW = 99
BoolArray = NDArray[np.bool_]
DepthArray = NDArray[np.int8]

_SQUARES = np.arange(64)
_FILE, _RANK = _SQUARES % 8, _SQUARES // 8
# Whether two squares touch; a square touches itself.
_NEAR = np.maximum(abs(_FILE[:, None] - _FILE), abs(_RANK[:, None] - _RANK)) <= 1
_STEPS = [[int(to) for to in np.flatnonzero(_NEAR[square]) if to != square] for square in range(64)]


def endgame_positions() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions with black to move, one of each set of mirrored ones, and white's moves to mate.

    Returns
    -------
    squares : ndarray of shape (28056, 3)
        Squares of the white king, the white rook and the black king, from 0 (a1) by files to 63 (h8).
    depths : ndarray of shape (28056,)
        Number of white's moves to mate if both play best; ``DRAW`` if there is none.

    Examples
    --------
    >>> squares, depths = endgame_positions()
    >>> len(squares), np.sum(depths == 0), np.sum(depths == DRAW), depths[depths < DRAW].max()
    (28056, np.int64(27), np.int64(2796), np.int64(16))
    """
    placed, check = _rules()
    depth = np.full((64, 64, 64), DRAW, dtype=np.int8)  # by white king, rook and black king
    while True:
        found = _black(_white(depth, placed), placed, check)
        if (found == depth).all():
            break
        depth = found
    squares = _without_mirrored(np.argwhere(placed))
    return squares, depth[tuple(squares.T)].astype(np.int64)


def _rules() -> tuple[BoolArray, BoolArray]:
    """Return whether three pieces may stand so with black to move, and whether the rook gives check."""
    king, rook, black = np.meshgrid(_SQUARES, _SQUARES, _SQUARES, indexing="ij", sparse=True)
    check = np.zeros((64, 64, 64), dtype=bool)
    for line, along in ((_FILE, _RANK), (_RANK, _FILE)):
        between = (along[king] - along[rook]) * (along[king] - along[black]) < 0
        check |= (line[rook] == line[black]) & ~((line[king] == line[rook]) & between)
    placed = (king != rook) & (rook != black) & ~_NEAR[king, black]
    return placed, check & (rook != black)


def _white(depth: DepthArray, placed: BoolArray) -> DepthArray:
    """Return the moves to mate with white to move: one more than after the best move."""
    best = np.full_like(depth, DRAW)
    after = np.where(placed, depth, DRAW).astype(np.int8)
    for square in range(64):
        for to in _STEPS[square]:
            np.minimum(best[square], after[to], out=best[square])
        for step in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            free = np.ones((64, 64), dtype=bool)  # no king stands on the way
            x, y = square % 8 + step[0], square // 8 + step[1]
            while 0 <= x < 8 and 0 <= y < 8:
                to = x + 8 * y
                free[to, :] = free[:, to] = False
                moved = np.where(free, after[:, to], DRAW)
                best[:, square] = np.minimum(best[:, square], moved)
                x, y = x + step[0], y + step[1]
    return np.where(best < DRAW, best + 1, DRAW).astype(np.int8)


def _black(white: DepthArray, placed: BoolArray, check: BoolArray) -> DepthArray:
    """Return the moves to mate with black to move: those after the move that delays it most."""
    worst = np.full_like(white, -1)
    safe = placed & ~check
    for square in range(64):
        for to in _STEPS[square]:
            takes = (
                np.equal(_SQUARES, to)[None, :] & ~_NEAR[:, to][:, None]
            )  # the rook, where the king does not guard it
            moved = np.where(takes, DRAW, np.where(safe[:, :, to], white[:, :, to], -1))
            worst[:, :, square] = np.maximum(worst[:, :, square], moved)
    stuck = worst < 0
    depth = np.where(stuck, np.where(check, 0, DRAW), worst)
    return np.where(placed, depth, DRAW).astype(np.int8)


def _without_mirrored(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one position of each set that the eight symmetries of the board map onto each other."""
    numbers = []
    for flip, turn, swap in product((False, True), repeat=3):
        x, y = squares % 8, squares // 8
        x, y = 7 - x if flip else x, 7 - y if turn else y
        mirrored = y + 8 * x if swap else x + 8 * y
        numbers.append(mirrored @ np.array([4096, 64, 1]))
    first = np.unique(np.min(numbers, axis=0))
    return np.stack([first // 4096, first // 64 % 64, first % 64], axis=1)
