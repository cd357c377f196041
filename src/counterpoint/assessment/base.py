"""What every assessment shares: its text, its place in a notebook, and JSON that is read back."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from counterpoint._notebook import html_block, html_list, html_table
from counterpoint._plain import plain
from counterpoint._validation import FloatArray, IntArray, check_json, printable
from counterpoint.assessment.groups import Finding

__all__ = ["AssessmentBase", "rounded"]


class AssessmentBase:
    """A frozen dataclass with a name, a verdict, numbers and findings."""

    schema: ClassVar[int]  # of the JSON; raise it whenever a field changes
    task: ClassVar[str] = ""  # tells the JSON of one kind of assessment from another's

    name: str
    findings: tuple[Finding, ...]

    @property
    @abstractmethod
    def verdict(self) -> str:
        """One sentence."""

    @abstractmethod
    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""

    def learner_rows(self) -> list[tuple[str, ...]]:
        """Return a table of the learners as text, its header first; empty if there is none."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, with None for undefined numbers, and the version of the schema."""
        return {"schema": self.schema, **({"task": self.task} if self.task else {}), **plain(self)}

    def to_json(self) -> str:
        """Return the assessment as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the assessment that :meth:`to_dict` described."""
        if (data.get("schema"), data.get("task", "")) != (cls.schema, cls.task):
            task = f" of task {data.get('task')!r}" if "task" in data else ""
            raise ValueError(
                f"`data` must be {_with_article(cls.__name__)} with schema {cls.schema}; "
                f"got schema {data.get('schema')!r}{task}."
            )
        return _restored(data, cls)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the assessment that :meth:`to_json` wrote."""
        return cls.from_dict(check_json(text, "text", _with_article(cls.__name__), needed=("name",)))

    def __str__(self) -> str:
        lines = [self.name, "=" * len(self.name), self.verdict, ""]
        width = max(len(label) for label, _ in self.summary())
        lines += [f"{label:<{width}}  {value}" for label, value in self.summary()]
        if rows := self.learner_rows():
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += [""] + [
                "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in rows
            ]
        lines += [""] if self.findings else []
        lines += [f"[{finding.severity}] {finding.text}" for finding in self.findings]
        return printable("\n".join(lines))

    def _repr_html_(self) -> str:
        header, *rows = self.learner_rows() or [()]
        return html_block(
            self.name,
            self.verdict,
            html_list(f"{finding.severity}: {finding.text}" for finding in self.findings),
            html_table(self.summary()),
            html_table(rows, header),
        )


def rounded(value: float) -> str:
    """Return a number with three decimals, or "undefined".

    Parameters
    ----------
    value : float
        The number; NaN if it is undefined.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> rounded(0.12345), rounded(float("nan"))
    ('0.123', 'undefined')
    """
    return "undefined" if np.isnan(value) else f"{value:.3f}"


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _restored(data: Mapping[str, Any], kind: Any) -> Any:
    """Return a dataclass or a named tuple from plain data."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    if missing := [name for name in names if name not in data]:
        raise ValueError(f"`data` must have the fields of {kind.__name__}; got none named {missing[0]!r}.")
    return kind(**{name: _restore(data[name], hints[name]) for name in names})


def _restore(value: Any, hint: Any) -> Any:
    """Return plain data as the type of its field."""
    if get_origin(hint) in (Union, UnionType):  # a part that may be absent
        return None if value is None else _restore(value, get_args(hint)[0])
    if hint is float:
        return np.nan if value is None else float(value)
    if hint in (FloatArray, IntArray):
        return np.array(value, dtype=np.float64 if hint == FloatArray else np.int64)
    if hint is Finding:
        return Finding(**value)
    if get_args(hint) and get_args(hint)[0] is Finding:
        return tuple(Finding(**entry) for entry in value)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _restored(value, hint)
    if isinstance(value, Mapping):
        return {key: _restore(entry, float) for key, entry in value.items()}
    return tuple(value) if isinstance(value, list) else value
