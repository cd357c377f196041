"""The border of the images: one whole number, one yes or no."""

import operator
from typing import Any

import numpy as np

__all__ = ["check_flag", "check_whole"]

_LARGEST = 2**63 - 1  # what torch counts with


def check_whole(value: Any, name: str, *, minimum: int, maximum: int = _LARGEST) -> int:
    """Return ``value`` as one integer between the two; ``check_count`` takes arrays as well."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"`{name}` must be an integer; got {value!r}.")
    if number < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}; got {number}.")
    if number > maximum:
        raise ValueError(f"`{name}` must be at most {maximum}; got {number}.")
    return number


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` if it is True or False: the text "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)
