"""Where to cut a path of learners."""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from counterpoint._validation import ROUNDING, FloatArray
from counterpoint.outputs import Outputs, vote_credits


def size_within_noise(read: Outputs, voting: str, picks: Sequence[int], accuracies: FloatArray) -> int:
    """Return the largest size whose vote is within one standard error of the best on the path."""
    size = first_best(accuracies) + 1
    path = vote_credits(read, voting, picks)
    best = next(islice(path, size - 1, None))
    for n, reached in enumerate(path, start=size + 1):
        loss = best - reached
        if loss.mean() <= loss.std() / np.sqrt(read.n_samples) + ROUNDING:
            size = n
    return size


def first_best(scores: FloatArray) -> int:
    """Return the position of the first of the largest entries; entries that differ by rounding are equal."""
    return int(np.argmax(scores >= scores.max() - ROUNDING))
