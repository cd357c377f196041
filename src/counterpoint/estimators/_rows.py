"""A table as networks train on it: distinct rows with weights, encoded."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray, check_interval, check_labels, check_number
from counterpoint.estimators._reading import PickedRows, Table, row_parts
from counterpoint.estimators.table_encoder import TableEncoder

__all__ = [
    "Rows",
    "check_class_weight",
    "check_classes",
    "check_sample_weight",
    "coded_rows",
    "distinct_rows",
]

_ORDINARY = 20  # the binary exponent of weights that are used as they are


class Rows(NamedTuple):
    """Rows of a table, as its encoder reads them, with their classes, as codes, or numbers, and weights."""

    X: Table  # (n, n_features)
    codes: NDArray[Any]  # (n,), whole numbers, or those to predict
    weight: FloatArray  # (n,)

    def take(self, index: IntArray) -> "Rows":
        """Return some of the rows."""
        return Rows(self.X.take(index, axis=0), self.codes[index], self.weight[index])

    def set_aside(self, fraction: float, seed: int) -> tuple["Rows", "Rows | None"]:
        """Return the rows to train on and a validation set, a share of each class, or None if the fraction is 0."""
        if fraction == 0:
            return self, None
        strata = self.codes if self._has_classes else np.zeros(len(self.codes), dtype=np.int64)
        mask = _held_out(strata, fraction, np.random.RandomState(seed))
        if not mask.any():
            what = "rows of a class" if self._has_classes else "rows"
            raise ValueError(
                f"`validation_fraction` must leave {what} to set aside; got {fraction} of {len(self.codes)} distinct "
                "rows."
            )
        return self.take(np.flatnonzero(~mask)), self.take(np.flatnonzero(mask))

    def balanced(self, class_weight: Mapping[Any, float] | str | None, classes: NDArray[Any]) -> "Rows":
        """Return the rows with their weights multiplied by those of their classes, without rows of weight 0."""
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

    @property
    def _has_classes(self) -> bool:
        return self.codes.dtype.kind == "i"

    def tensors(self, encoder: TableEncoder, device: torch.device) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return inputs, classes or numbers, and weights on a device; the weights are None if they are equal.

        Only the ratios of weights matter. They are divided by the largest, so that small ones do not underflow in
        float32.
        """
        X = np.empty((len(self.X), encoder._n_out), dtype=np.float32)
        for part in row_parts(len(X)):
            with np.errstate(over="ignore"):
                X[part] = encoder._encode(self.X[part])
            if (bad := ~np.isfinite(X[part])).any():
                row, column = np.argwhere(bad)[0]  # numeric columns come first
                feature = encoder._numeric[column]
                got = self.X[part.start + row, feature]
                raise ValueError(
                    f"`X` must hold numbers that float32 can; got {got:.6g} in {encoder._called(feature)}."
                )
        x = torch.from_numpy(X).to(device)
        weight = None
        if self.weight.size and np.ptp(self.weight):
            weight = torch.as_tensor(self.weight / self.weight.max(), dtype=torch.float32, device=device)
        kind = torch.long if self._has_classes else torch.float32
        return x, torch.as_tensor(self.codes, dtype=kind, device=device), weight


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> FloatArray:
    """Return one weight for each sample, none negative, not all zero, and of moderate size."""
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
    # Only the ratios matter. Where all weights are huge or tiny, sums of squares would overflow or vanish, and
    # StandardScaler would take features for constant. A power of two brings them near 1 and keeps their digits.
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


def coded_rows(X: NDArray[Any], y: NDArray[Any], classes: NDArray[Any], weight: FloatArray) -> Rows:
    """Return the distinct rows, with the positions of their classes in the sorted classes as codes."""
    if strangers := set(np.unique(y[weight > 0]).tolist()) - set(classes.tolist()):
        raise ValueError(f"`y` must hold the classes {classes.tolist()}; got {min(strangers)!r}.")
    return distinct_rows(X, np.searchsorted(classes, y).clip(max=len(classes) - 1), weight)


def distinct_rows(X: Table, codes: IntArray | FloatArray, weight: FloatArray) -> Rows:
    """Return each distinct row with a weight that is not zero once, in sorted order, with its weights summed.

    So a row of weight 2 is exactly the same as the row twice, a row of weight 0 the same as no row, and the order of
    the rows does not matter. Missing values are equal.
    """
    X = np.asarray(X)
    order = np.flatnonzero(weight > 0)
    begins = np.zeros(len(order), dtype=bool)
    begins[:1] = True
    for key in (codes, *X.T):
        _refine(order, begins, key)
    numbers = np.cumsum(begins) - 1
    summed: FloatArray = np.bincount(numbers, weight[order]).astype(np.float64, copy=False)
    first = order[begins]
    return Rows(PickedRows(X, first), codes[first], summed)


def _refine(order: IntArray, begins: NDArray[np.bool_], key: NDArray[Any]) -> None:
    """Sort rows, in place, by one more key: those in runs of equal rows, whose beginnings are known."""
    ends = np.append(begins[1:], True)[: len(order)]
    tied = np.flatnonzero(~(begins & ends))  # in runs of two rows or more
    rows, runs = order[tied], np.cumsum(begins)[tied]
    values = key[rows]
    again = np.lexsort((values, runs))
    rows, values = rows[again], values[again]  # the runs stay where they are
    differ = values[1:] != values[:-1]
    differ &= ~((values[1:] != values[1:]) & (values[:-1] != values[:-1]))  # missing values are equal
    order[tied] = rows
    begins[tied[1:]] |= differ


def _held_out(codes: IntArray | FloatArray, fraction: float, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Return a mask of about that fraction of each class, which leaves at least one row of each."""
    mask = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        mask[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    return mask
