"""A table as networks train on it: distinct weighted rows, standardised, in batches of one size."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray, check_interval, check_labels, check_number

__all__ = [
    "Batches",
    "Rows",
    "check_class_weight",
    "check_classes",
    "check_sample_weight",
    "coded_rows",
    "distinct_rows",
    "n_batches",
    "scaled_by",
]

_ORDINARY = 20  # the binary exponent of weights that are used as they are

Batch = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]


class Rows(NamedTuple):
    """Rows of a table with their classes, as codes, and weights."""

    X: NDArray[Any]  # (n, n_features)
    codes: IntArray  # (n,)
    weight: FloatArray  # (n,)

    def take(self, index: IntArray) -> "Rows":
        """Return some of the rows."""
        return Rows(self.X[index], self.codes[index], self.weight[index])

    def set_aside(self, fraction: float, seed: int) -> tuple["Rows", "Rows | None"]:
        """Return the rows to train on and, if there are to be any, a share of each class to choose the epoch by."""
        if fraction == 0:
            return self, None
        mask = _held_out(self.codes, fraction, np.random.RandomState(seed))
        if not mask.any():
            raise ValueError(
                f"`validation_fraction` must leave rows of a class to set aside; got {fraction} of "
                f"{len(self.codes)} distinct rows."
            )
        return self.take(np.flatnonzero(~mask)), self.take(np.flatnonzero(mask))

    def balanced(self, class_weight: Mapping[Any, float] | str | None, classes: NDArray[Any]) -> "Rows":
        """Return the rows with their weights multiplied by those of their classes, without those left with none."""
        if class_weight is None:
            return self
        if isinstance(class_weight, Mapping):
            factors = compute_class_weight(dict(class_weight), classes=classes, y=classes[self.codes])
        else:
            mass = np.bincount(self.codes, self.weight, minlength=len(classes))
            factors = np.divide(mass.sum(), len(classes) * mass, out=np.zeros_like(mass), where=mass > 0)
        weight = self.weight * factors[self.codes]
        if not weight.any() or not np.isfinite(weight).all():
            what = "infinity" if weight.any() else "zero for all of them"
            raise ValueError(
                f"`class_weight` must be finite, and above zero for a class of the rows; got {what}."
            )
        return self._replace(weight=weight).take(np.flatnonzero(weight))

    def tensors(
        self, scaler: StandardScaler | None, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return inputs, classes and weights, None if they are equal, on a device.

        Only the ratios of weights count: they are scaled to the largest, lest float32 take small ones for 0.
        """
        X = self.X if scaler is None else scaler.transform(self.X)
        with np.errstate(over="ignore"):
            X = np.array(X, dtype=np.float32)
        if (bad := ~np.isfinite(X)).any():
            raise ValueError(f"`X` must hold numbers that float32 can; got {_first_of(self.X, bad)}.")
        x = torch.from_numpy(X).to(device)
        weight = None
        if self.weight.size and np.ptp(self.weight):
            weight = torch.as_tensor(self.weight / self.weight.max(), dtype=torch.float32, device=device)
        return x, torch.as_tensor(self.codes, dtype=torch.long, device=device), weight


class Batches:
    """The rows in a new order each time, cut into batches whose sizes differ by one at most.

    Parameters
    ----------
    x, y, weight : Tensor
        The rows; ``weight`` may be None.
    batch_size : int
        The largest size of a batch.
    generator : Generator
        What the order is drawn from.
    """

    def __init__(
        self, x: Tensor, y: Tensor, weight: Tensor | None, batch_size: int, generator: torch.Generator
    ) -> None:
        self.tensors = (x, y) if weight is None else (x, y, weight)
        self.n_batches = n_batches(len(y), batch_size)
        self.generator = generator

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[Batch]:
        order = torch.randperm(len(self.tensors[1]), generator=self.generator)
        for part in order.tensor_split(self.n_batches):
            rows = part.to(self.tensors[0].device)
            yield tuple(tensor[rows] for tensor in self.tensors)  # type: ignore[misc]


def n_batches(n_rows: int, batch_size: int) -> int:
    """Return how many batches an epoch has: as few as the size allows."""
    return -(-n_rows // batch_size)


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> FloatArray:
    """Return one weight for each sample, none negative, not all zero, and of a size to calculate with."""
    if sample_weight is None:
        return np.ones(n_samples)
    given = np.asarray(sample_weight)
    given = given.astype(np.float64) if given.dtype == bool else given  # a mask of the rows that count
    weight = check_interval(given, "sample_weight", 0)
    if weight.shape != (n_samples,):
        raise ValueError(f"`sample_weight` must have shape ({n_samples},); got shape {weight.shape}.")
    if not weight.any() or not np.isfinite(weight).all():
        what = "infinity" if weight.any() else "all zero"
        raise ValueError(f"`sample_weight` must be finite, and above zero for some samples; got {what}.")
    # The ratios count. Where all are huge or tiny, sums of squares would overflow or vanish, and StandardScaler take
    # features for constant; a power of two brings them near 1 and keeps their digits.
    size = int(np.frexp(weight.max())[1])
    return np.ldexp(weight, -size) if abs(size) > _ORDINARY else weight


def check_classes(classes: ArrayLike) -> NDArray[Any]:
    """Return the distinct classes, sorted, of which there are at least two."""
    labels = check_labels(classes, "classes")
    if labels.ndim != 1 or len(found := np.unique(labels)) < 2:
        raise ValueError(f"`classes` must hold at least two classes, in one row; got {classes!r:.80}.")
    return found


def check_class_weight(class_weight: Any) -> None:
    """Refuse what is not a mapping to numbers, "balanced" or None."""
    if isinstance(class_weight, Mapping):
        for factor in class_weight.values():
            check_number(factor, "class_weight", 0)
    elif class_weight is not None and not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(f"`class_weight` must be a dict, 'balanced' or None; got {class_weight!r:.80}.")


def scaled_by(rows: Rows, scaler: StandardScaler | None = None) -> StandardScaler:
    """Return what standardises the rows; a scaler that is given knows others besides."""
    scaler = StandardScaler() if scaler is None else scaler
    with np.errstate(over="ignore", invalid="ignore"):
        scaler.partial_fit(rows.X, sample_weight=rows.weight)
    if (bad := ~np.isfinite(scaler.var_)).any():
        got = _first_of(rows.X, np.broadcast_to(bad, rows.X.shape))
        raise ValueError(f"`X` must hold numbers whose variance is finite; got {got}.")
    return scaler


def coded_rows(X: NDArray[Any], y: NDArray[Any], classes: NDArray[Any], weight: FloatArray) -> Rows:
    """Return the distinct rows, with the places of their classes among all, which are sorted, as codes."""
    if strangers := set(np.unique(y[weight > 0]).tolist()) - set(classes.tolist()):
        raise ValueError(f"`y` must hold the classes {classes.tolist()}; got {min(strangers)!r}.")
    return distinct_rows(X, np.searchsorted(classes, y).clip(max=len(classes) - 1), weight)


def distinct_rows(X: NDArray[Any], codes: IntArray, weight: FloatArray) -> Rows:
    """Return each distinct row with a weight that is not zero once, in sorted order, with its weights summed.

    So a row of weight 2 is the same as the row twice, a row of weight 0 the same as none, and the order of the rows
    does not matter: exactly, whatever the batches.
    """
    kept = weight > 0
    table = np.column_stack([codes[kept], X[kept]])
    found, where = np.unique(table, axis=0, return_inverse=True)
    summed = np.zeros(len(found))
    np.add.at(summed, where.ravel(), weight[kept])
    return Rows(found[:, 1:], found[:, 0].astype(np.int64), summed)


def _held_out(codes: IntArray, fraction: float, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Return a mask of about that share of each class, which leaves at least one row of each."""
    mask = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        learners = rng.permutation(np.flatnonzero(codes == code))
        mask[learners[: min(round(fraction * len(learners)), len(learners) - 1)]] = True
    return mask


def _first_of(X: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    row, feature = np.argwhere(bad)[0]
    return f"{X[row, feature]:.6g} in feature {feature}"
