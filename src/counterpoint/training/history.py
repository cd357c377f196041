"""The measures of training, epoch by epoch, as plain data."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from counterpoint._notebook import html_block, html_table, svg_curves
from counterpoint._validation import check_json, check_whole
from counterpoint.theory import OperatingPoint

__all__ = ["History"]


class History:
    """Records of the epochs, one mapping of numbers each.

    Parameters
    ----------
    records : iterable of mapping, default=()
        One record for each epoch.
    best_epoch : int, optional
        Number, from 1, of the best epoch on the validation data.

    Notes
    -----
    :func:`fit` records ``epoch``, ``loss``, ``r_tl``, ``r_ll``, ``vote_accuracy``, ``learner_accuracy`` (the mean over
    the learners), ``log_loss``, ``brier_score`` and ``calibration_error`` of the vote, ``lr`` and ``seconds``. Losses,
    correlations and what is said of the vote are averages over the training batches,
    each before its own step; where an epoch has 16 batches or more, all but the loss are over one batch in two to four,
    others each epoch. For regression there are ``squared_error``, of the mean, and ``learner_squared_error`` in place
    of the measures of the vote. Those of the validation data are over all of it and have ``val_`` before their names.

    Examples
    --------
    >>> history = History([{"epoch": 1, "r_tl": 0.2}, {"epoch": 2, "r_tl": 0.5}], best_epoch=2)
    >>> len(history), history["r_tl"], history[-1]
    (2, array([0.2, 0.5]), {'epoch': 2, 'r_tl': 0.5})
    >>> History.from_json(history.to_json()) == history
    True
    """

    def __init__(self, records: Iterable[Mapping[str, Any]] = (), *, best_epoch: int | None = None) -> None:
        records = list(records) if isinstance(records, Iterable) else [records]
        if strangers := [record for record in records if not isinstance(record, Mapping)]:
            raise TypeError(f"`records` must be mappings, one for each epoch; got {strangers[0]!r:.80}.")
        self.records = [dict(record) for record in records]
        if best_epoch is not None:
            best_epoch = check_whole(best_epoch, "best_epoch", minimum=1, maximum=len(self.records))
        self.best_epoch = best_epoch

    @property
    def columns(self) -> list[str]:
        """The names of the measures, in order."""
        return list(dict.fromkeys(name for record in self.records for name in record))

    @property
    def trajectory(self) -> OperatingPoint:
        """The path of ``(r_tl, r_ll)``, for :class:`counterpoint.plots.TradeoffDisplay`."""
        return OperatingPoint(self["r_tl"], self["r_ll"])

    def append(self, record: Mapping[str, Any]) -> None:
        """Add the record of an epoch."""
        self.records.append(dict(record))

    def to_json(self) -> str:
        """Return the history as JSON text; undefined values become null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the history that :meth:`to_json` wrote."""
        return cls._read(
            check_json(text, "text", "a History", needed=_PARTS), "text", "the JSON of a History"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the history as a JSON-serialisable mapping."""
        epochs = [{name: _plain(value, name) for name, value in record.items()} for record in self.records]
        return {"best_epoch": self.best_epoch, "epochs": epochs}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the history that :meth:`to_dict` wrote."""
        return cls._read(data, "data", "what `to_dict` returns")

    @classmethod
    def _read(cls, data: Any, name: str, what: str) -> Self:
        epochs: Any = data["epochs"] if isinstance(data, Mapping) and data.keys() >= set(_PARTS) else None
        try:
            records = [{key: _number(value) for key, value in record.items()} for record in epochs]
        except (AttributeError, TypeError, ValueError):  # not a list, of mappings, of numbers
            raise ValueError(f"`{name}` must be {what}; got {data!r:.80}.") from None
        return cls(records, best_epoch=data["best_epoch"])

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...
    def __getitem__(self, key: SupportsIndex | str) -> dict[str, Any] | NDArray[Any]:
        if not isinstance(key, str):
            return self.records[key]
        if self.records and key not in self.columns:
            raise KeyError(f"`{key}` must be one of {', '.join(self.columns)}")
        return np.array([record.get(key, math.nan) for record in self.records])

    def __eq__(self, other: object) -> bool:
        # As text, where NaN equals NaN.
        return isinstance(other, History) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        best = "" if self.best_epoch is None else f", best_epoch={self.best_epoch}"
        return f"<History of {len(self)} epochs{best}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        best = (
            "" if self.best_epoch is None else f"Epoch {self.best_epoch} is the best on the validation data."
        )
        curves = [self._curves(name) for name in _DRAWN if name in self.columns]
        shown = dict.fromkeys([0, (self.best_epoch or 1) - 1, len(self) - 1] if self.records else [])
        rows = [
            (name, *(_cell(self.records[epoch].get(name)) for epoch in shown))
            for name in self.columns
            if name != "epoch"
        ]
        header = ("", *(f"epoch {epoch + 1}" for epoch in shown))
        return html_block(f"{len(self)} epochs", best, *curves, html_table(rows, header))

    def _curves(self, name: str) -> str:
        columns = {"training": name, "validation": f"val_{name}"}
        found = {word: self[column] for word, column in columns.items() if column in self.columns}
        numbers = {word: values.tolist() for word, values in found.items() if values.dtype.kind in "if"}
        return svg_curves(name, numbers, self.best_epoch)


_PARTS = ("best_epoch", "epochs")
_DRAWN = ("loss", "vote_accuracy", "squared_error")  # as curves, in a notebook
_WORDS = {math.inf: "inf", -math.inf: "-inf"}


def _cell(value: Any) -> str:
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    return f"{number:.4g}" if isinstance(number, int | float) else "" if number is None else str(number)


def _plain(value: Any, name: str) -> float | str | None:
    """Return a number of Python, NumPy or torch as JSON."""
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(number, int | float):
        raise TypeError(f"`{name}` must be a number, to be kept in a history; got {value!r}.")
    return number if math.isfinite(number) else _WORDS.get(number)


def _number(value: Any) -> Any:
    """Return the number that :func:`_plain` wrote."""
    if value is None:
        return math.nan
    return float(value) if isinstance(value, str) else value
