"""Argument checks, with error messages of one form.

A message names the argument in backticks, the rule and the value. ``TypeError`` is for the wrong kind of object,
``ValueError`` for the wrong value of the right kind.
"""

import json
import operator
import os
import re
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Correlations computed from data may exceed their bounds by rounding; this much is tolerated and clipped.
ROUNDING = 1e-9

# Rows of probabilities may miss the sum of one by this much, as a softmax in 16 bits does.
ROW_SUM_TOLERANCE = 1e-3

_LARGEST = 2**63 - 1  # the largest int64

# Control characters, marks that change the direction of a line, and halves of characters.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def check_count(value: ArrayLike, name: str, *, minimum: int) -> IntArray:
    """Return ``value`` as an integer array with no entry under ``minimum``."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.size == 0:
        raise TypeError(f"`{name}` must be an integer or an array of integers; got {value!r}.")
    if (bad := array < minimum).any():
        raise ValueError(f"`{name}` must be at least {minimum}; got {_first(array, bad)}.")
    return array.astype(np.int64)


def check_whole(value: Any, name: str, *, minimum: int, maximum: int = _LARGEST) -> int:
    """Return ``value`` as one integer in the range; ``check_count`` also accepts arrays."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"`{name}` must be an integer; got {short(value)}.")
    if number < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}; got {number}.")
    if number > maximum:
        raise ValueError(f"`{name}` must be at most {maximum}; got {number}.")
    return number


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` as a bool if it is True, False, 1 or 0; other truthy values, such as "no", are refused."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
        raise TypeError(f"`{name}` must be True or False; got {short(value)}.")
    return bool(value)


def short(value: Any, most: int = 80) -> str:
    """Return the ``repr`` of a value, in one line and cut to a length, for a message."""
    text = repr(value[: most + 1]) if isinstance(value, str | bytes) else repr(value)
    text = " ".join(text.split()) if "\n" in text else text  # of an array or a frame
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    """Return a text with escapes in place of characters that a terminal or browser obeys; lines and tabs are kept."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def check_path(value: Any, name: str, *, kind: str = "file") -> Path:
    """Return ``value`` as a path; an empty one, which would mean the current folder, is refused."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"`{name}` must be the path of a {kind}; got {short(value)}.")
    if not os.fspath(value):
        raise ValueError(f"`{name}` must be the path of a {kind}; got {value!r}.")
    try:
        os.fsdecode(
            value
        ).encode()  # as it is written into pages, records and messages, maybe after hours of work
        is_name = "\0" not in os.fsdecode(value)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ValueError(f"`{name}` must be the path of a {kind} whose name is UTF-8; got {short(value)}.")
    path = Path(os.fsdecode(value))
    if kind == "file" and path.is_dir():
        raise ValueError(f"`{name}` must be the path of a file; got the folder {str(path)!r}.")
    return path


def check_json(text: Any, name: str, what: str, *, needed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the JSON object in a text; it must have the ``needed`` entries of ``what``."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError):  # not a string, or not JSON
        data = None
    if not isinstance(data, dict) or not data.keys() >= set(needed):
        raise ValueError(f"`{name}` must be the JSON of {what}; got {short(text)}.")
    return data


def find_fault(value: Any, schema: Any, place: str = "") -> str:
    """Return what is wrong with nested data that a file holds, or an empty string.

    A schema is a type or a tuple of types, a list with the schema of every entry, or a mapping of needed keys to
    schemas; the data may have further keys.
    """
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return f"{place or 'it'} is no mapping"
        if lacking := [key for key in schema if key not in value]:
            return f"{place + '.' if place else ''}{lacking[0]} is missing"
        entries: Iterable[tuple[Any, Any]] = ((key, entry) for key, entry in schema.items())
    elif isinstance(schema, list):
        if not isinstance(value, list):
            return f"{place or 'it'} is no list"
        entries = ((i, schema[0]) for i in range(len(value)))
    else:
        kinds = schema if isinstance(schema, tuple) else (schema,)
        fits = isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
        return "" if fits else f"{place or 'it'} is {short(value)}"
    found = (find_fault(value[key], inner, f"{place}.{key}".lstrip(".")) for key, inner in entries)
    return next(filter(None, found), "")


def check_interval(
    value: ArrayLike,
    name: str,
    low: ArrayLike = -np.inf,
    high: ArrayLike = np.inf,
    *,
    closed: bool = True,
    because: str = "",
) -> FloatArray:
    """Return ``value`` as a float array inside ``[low, high]``, up to rounding.

    ``low`` and ``high`` broadcast with the value; ``because`` names the rule behind the bounds.
    """
    array = check_real(value, name)
    array, low_, high_ = np.broadcast_arrays(array, np.asarray(low), np.asarray(high))
    slack = ROUNDING if closed else 0.0
    inside = (array >= low_ - slack) & (array <= high_ + slack)
    if not closed:
        inside &= (array != low_) & (array != high_)
    if not inside.all():
        worst = np.flatnonzero(~inside.ravel())[0]
        a, b = low_.ravel()[worst], high_.ravel()[worst]
        rule = _describe_interval(float(a), float(b), closed=closed)
        reason = f" ({because})" if because else ""
        raise ValueError(f"`{name}` must be {rule}{reason}; got {_first(array, ~inside)}.")
    return np.clip(array, low_, high_) if closed else array.copy()


def check_broadcast(**values: ArrayLike) -> None:
    """Raise ValueError if the shapes of the arguments do not broadcast."""
    shapes = {f"`{name}`": _shape(value) for name, value in values.items()}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise ValueError(
            f"{_listed(shapes)} must have shapes that broadcast; got {_listed(map(str, shapes.values()))}."
        ) from None


def check_number(
    value: Any,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    closed: bool = True,
    finite: bool = True,
) -> float:
    """Return ``value`` as one number in the interval, by default finite; ``check_interval`` also accepts arrays."""
    array = _array(value, name, "one number")
    if array.ndim or array.dtype.kind not in "fiu":
        raise TypeError(f"`{name}` must be one number; got {short(value)}.")
    number = check_interval(array, name, low, high, closed=closed)
    if finite and np.isinf(number):
        raise ValueError(f"`{name}` must be finite; got {number}.")
    return float(number)


def check_real(value: ArrayLike, name: str, *, copy: bool = True) -> FloatArray:
    """Return ``value`` as a float64 array without NaN; infinity is left to the range check."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged nested sequences
        raise TypeError(f"`{name}` must be a number or an array of numbers; got {short(value)}.") from None
    is_real = array.dtype.kind in "fiu" or (array.dtype == object and all(map(_is_real, array.flat)))
    if not is_real or array.size == 0:
        raise TypeError(f"`{name}` must be a number or an array of numbers; got {short(value)}.")
    try:
        array = array.astype(np.float64, copy=copy)
    except OverflowError:  # whole numbers of any size are objects
        raise ValueError(f"`{name}` must be finite; got {short(value)}.") from None
    if (bad := np.isnan(array)).any():
        raise ValueError(f"`{name}` must not be NaN; got {_first(array, bad)}.")
    return array


def _is_real(value: Any) -> bool:
    """Return True for a real number: a frame of nullable numbers is an array of these as objects."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def check_square(value: ArrayLike, name: str) -> FloatArray:
    """Return ``value`` as a finite float array of one or more square matrices, not copied if it is one."""
    array = check_real(value, name, copy=False)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"`{name}` must be a square matrix; got shape {array.shape}.")
    if (bad := ~np.isfinite(array)).any():
        raise ValueError(f"`{name}` must be finite; got {_first(array, bad)}.")
    return array


def check_choice(value: Any, name: str, options: Iterable[Any]) -> Any:
    """Return ``value`` if it is one of the options."""
    options = tuple(options)
    try:
        known = value in options
    except ValueError:  # comparing an array gives an array
        known = False
    if not known:
        listed = ", ".join(map(repr, options))
        raise ValueError(f"`{name}` must be one of {listed}; got {short(value)}.")
    return value


def check_labels(value: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``value`` as an array of whole numbers, booleans or strings.

    Integers, booleans and strings are not copied, so a memory-mapped array stays one. Bytes become strings.
    """
    array = _array(value, name, "an array of labels")
    if array.size == 0:
        raise ValueError(f"`{name}` must not be empty; got shape {array.shape}.")
    if array.dtype.kind in "OT":  # T: NumPy's variable-length strings, which may be missing
        array = _plain_labels(array, name)
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"`{name}` must hold bytes that are UTF-8; got {error.object!r}.") from None
    if array.dtype == np.uint64 and (largest := int(array.max())) > _LARGEST:
        raise ValueError(f"`{name}` must hold whole numbers of at most {_LARGEST}; got {largest}.")
    if array.dtype.kind not in "biufU":
        raise TypeError(f"`{name}` must hold numbers or strings; got dtype {array.dtype}.")
    if array.dtype.kind == "f":
        for index, row in enumerate(array if array.ndim > 1 else array[np.newaxis]):
            if (bad := ~np.isfinite(row) | (row != np.round(row))).any():
                place = np.argwhere(bad)[0].tolist()
                at = [index, *place] if array.ndim > 1 else place
                raise ValueError(
                    f"`{name}` must hold whole numbers or strings where it holds labels; "
                    f"got {row[tuple(place)]:.6g} at {at}."
                )
    return array


def check_unmasked(value: Any, name: str) -> None:
    """Raise ValueError if an array has masked entries, because NumPy would ignore the mask."""
    if isinstance(value, list | tuple) and any(np.ma.is_masked(row) for row in value):
        value = np.ma.stack([np.ma.asarray(row) for row in value])
    if np.ma.is_masked(value):
        place = np.argwhere(np.ma.getmaskarray(value))[0].tolist()
        raise ValueError(f"`{name}` must have no masked entry; got one at {place}.")


def check_probabilities(value: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``value``, whose last axes are samples and classes, as an array of probabilities.

    Rows may miss the sum of one by ``ROW_SUM_TOLERANCE``, as 16-bit numbers do. The array is read one learner at a
    time and not copied.
    """
    array = _array(value, name, "an array of probabilities")
    if array.size == 0:
        raise ValueError(f"`{name}` must not be empty; got shape {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers; got dtype {array.dtype}.")
    for learner in np.ndindex(array.shape[:-2]):
        rows = np.asarray(array[learner], dtype=np.float64)
        at = f"learner {learner[0] if len(learner) == 1 else list(learner)}, " if learner else ""
        if (bad := np.isnan(rows)).any():
            sample, label = np.argwhere(bad)[0]
            raise ValueError(f"`{name}` must not be NaN; got nan at {at}sample {sample}.")
        if (bad := (rows < 0) | (rows > 1 + ROW_SUM_TOLERANCE)).any():
            sample, label = np.argwhere(bad)[0]
            raise ValueError(
                f"`{name}` must hold probabilities, between 0 and 1; "
                f"got {rows[sample, label]:.6g} at {at}sample {sample}."
            )
        sums = rows.sum(axis=-1)
        if (bad := np.abs(sums - 1) > ROW_SUM_TOLERANCE).any():
            sample = int(np.argmax(bad))
            raise ValueError(
                f"`{name}` must hold probabilities that sum to one over the classes; "
                f"got a sum of {sums[sample]:.6g} at {at}sample {sample}."
            )
    return array


def check_weights(value: ArrayLike | None, name: str, n_learners: int) -> FloatArray:
    """Return one weight per learner, scaled to sum to one; ``None`` means equal weights."""
    if value is None:
        return np.full(n_learners, 1 / n_learners)
    weights = check_interval(value, name, 0.0)
    if weights.shape != (n_learners,):
        raise ValueError(
            f"`{name}` must have shape ({n_learners},), one per learner; got shape {weights.shape}."
        )
    if not 0 < (total := float(weights.sum())) < np.inf:
        raise ValueError(f"`{name}` must have a positive, finite sum; got {total:.6g}.")
    return weights / total


def _array(value: ArrayLike, name: str, kind: str) -> NDArray[Any]:
    check_unmasked(value, name)
    try:
        return np.asarray(value)
    except ValueError:  # ragged nested sequences
        raise TypeError(f"`{name}` must be {kind}; got {short(value)}.") from None


def _plain_labels(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return an object array of strings or of whole numbers as an array of that kind."""
    array = array.astype(object, copy=False)
    kinds: dict[type, tuple[type, ...]] = {str: (str,), int: (bool, int, np.bool_, np.integer)}
    for target, known in kinds.items():
        wrong = np.array([not isinstance(entry, known) for entry in array.flat], dtype=bool)
        if not wrong.any():
            return _as_kind(array, target, name)
        if not wrong[0]:  # the first label sets the kind that the others must have
            break
    place = np.argwhere(wrong.reshape(array.shape))[0].tolist()
    at = f" at {place}" if place else ""
    raise ValueError(
        f"`{name}` must hold labels of one kind, all strings or all whole numbers; "
        f"got {short(array[tuple(place)])}{at}."
    )


def _as_kind(array: NDArray[Any], kind: type, name: str) -> NDArray[Any]:
    if (
        kind is str
        and (bad := next((label for label in array.flat if label.endswith("\0")), None)) is not None
    ):
        raise ValueError(f"`{name}` must hold labels that do not end in NUL; got {short(bad)}.")
    try:
        return array.astype(kind)
    except OverflowError:
        largest = max(array.flat, key=abs)
        raise ValueError(f"`{name}` must hold whole numbers of at most 64 bits; got {largest}.") from None


def _describe_interval(low: float, high: float, *, closed: bool) -> str:
    if closed and np.isinf(high):
        return f"at least {low:.6g}"
    if closed and np.isinf(low):
        return f"at most {high:.6g}"
    if closed and f"{low:.6g}" == f"{high:.6g}":
        return f"{low:.6g}"
    strictly = "" if closed else "strictly "
    return f"{strictly}between {low:.6g} and {high:.6g}"


def _shape(value: ArrayLike) -> tuple[int, ...]:
    try:
        return np.shape(value)
    except ValueError:  # ragged nested sequences; the check of the argument itself reports them
        return ()


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _first(array: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    """Return the first bad entry, with its index if the array has more than one entry."""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    entry = f"{array[place]:.6g}" if array.dtype.kind == "f" else str(array[place])
    return f"{entry} at {list(place)}" if place else entry
