"""Assessments as one self-contained HTML page, as JSON or as Markdown.

Four steps: the assessments become one dict of strings and numbers, the figures become coordinates, autoescaping
templates render them, and ``EnsembleReport`` is the object that the user holds.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from counterpoint import __version__
from counterpoint._files import replacing
from counterpoint._validation import (
    FloatArray,
    check_broadcast,
    check_choice,
    check_interval,
    check_path,
    check_real,
)
from counterpoint.assessment import (
    AgreementAssessment,
    Assessment,
    RegressionAssessment,
    ScoreAssessment,
    VoteComparison,
)
from counterpoint.assessment.base import AssessmentBase
from counterpoint.report._card import card_content
from counterpoint.report._content import content
from counterpoint.report._panel import panel_content
from counterpoint.report._regression import regression_content
from counterpoint.report._regression_card import regression_card_content
from counterpoint.report._rendering import rendered, resource
from counterpoint.report._words import shorten
from counterpoint.theory import OperatingPoint

__all__ = ["EnsembleReport"]

_MOST_BYTES = 1_000_000
_SCHEMA = 2  # of the JSON; raise it whenever a field changes
_ONE = 1 + 1e-5  # rounding that a correlation in float32 may have
_ROOMS = (1.0, 0.5, 0.25)  # fractions of the limits to try until the page is small enough


class _Kind(NamedTuple):
    """What makes the page, the Markdown and the card of one kind of assessment."""

    content: Callable[..., dict[str, Any]]
    sections: str
    markdown: str
    card: Callable[[Any], dict[str, Any]] | None


_KINDS: Mapping[type[AssessmentBase], _Kind] = {
    Assessment: _Kind(content, "sections.html", "report.md", card_content),
    RegressionAssessment: _Kind(
        regression_content, "regression.html", "regression.md", regression_card_content
    ),
    AgreementAssessment: _Kind(panel_content, "panel.html", "panel.md", None),
    ScoreAssessment: _Kind(panel_content, "panel.html", "panel.md", None),
}


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleReport:
    """One page on one ensemble or on several: verdict, advice, figures and tables.

    Parameters
    ----------
    assessments : Assessment or a sequence of one kind of them
        From :func:`counterpoint.assess`, with or without a truth, or from ``assess_regression`` or ``assess_scores`` of
        :mod:`counterpoint.assessment`: one, or one for each ensemble to compare. Equal names are numbered.
    title : str, optional
        The heading; by default the name of the ensemble, or the number of ensembles.
    date : str or datetime.date, optional
        A date to print under provenance; by default none, so that equal assessments give equal pages.
    trajectories : mapping of str to (r_tl, r_ll), optional
        The paths of ensembles of votes in training, by name, such as ``history.trajectory``. They are drawn on the
        plane, with a gap where a value is NaN.
    comparison : VoteComparison, optional
        Paired tests of the ensembles, by their names, from :func:`counterpoint.assessment.compare_votes`. The verdict
        then says whether the two most accurate votes can be told apart.

    Attributes
    ----------
    assessments : tuple
        The assessments, with unique names.
    title, date, trajectories, comparison
        As given.

    See Also
    --------
    counterpoint.assess, counterpoint.assessment.assess_regression : Return an assessment.

    Notes
    -----
    The page is one file under 1 MB that requests nothing, whatever the number of learners and of ensembles: tables
    show the notable learners, the correlation matrix groups of similar learners, and the comparison the ensembles with
    the most accurate votes or the lowest errors, if there are too many; long names are shortened in the middle. The
    page is readable without JavaScript; with it, figures have tooltips and, for votes, a panel predicts the vote for
    other numbers of learners, accuracies and error correlations.

    Examples
    --------
    >>> from counterpoint import assess
    >>> truth = [0, 0, 0, 0, 1, 1, 1, 1]
    >>> votes = [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1, 1, 0]]
    >>> report = EnsembleReport([assess(truth, votes), assess(truth, votes[1:])])
    >>> report
    <EnsembleReport on 'ensemble', 'ensemble (2)'>
    >>> print(report.markdown().splitlines()[0])
    # 2 ensembles compared
    """

    assessments: tuple[Any, ...]  # all of one kind
    title: str | None
    date: str | None
    trajectories: Mapping[str, OperatingPoint]
    comparison: VoteComparison | None

    def __init__(
        self,
        assessments: AssessmentBase | Sequence[AssessmentBase],
        *,
        title: str | None = None,
        date: str | datetime.date | None = None,
        trajectories: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
        comparison: VoteComparison | None = None,
    ) -> None:
        single = isinstance(assessments, AssessmentBase) or not isinstance(assessments, Iterable)
        given: tuple[Any, ...] = (assessments,) if single else tuple(cast(Sequence[Any], assessments))
        kind = _one_kind(given)
        for option, value in (("trajectories", trajectories), ("comparison", comparison)):
            if value is not None and kind is not Assessment:
                raise ValueError(f"`{option}` needs assessments of votes; got {kind.__name__}.")
        object.__setattr__(self, "assessments", _uniquely_named(given))
        object.__setattr__(self, "title", title if title is None else str(title))
        object.__setattr__(self, "date", date if date is None else str(date))
        if trajectories is not None and not isinstance(trajectories, Mapping):
            raise TypeError(f"`trajectories` must be a mapping; got {type(trajectories).__name__}.")
        names = [assessment.name for assessment in self.assessments]
        paths = {
            check_choice(name, "trajectories", names): _trajectory(path, f"trajectories[{name!r}]")
            for name, path in (trajectories or {}).items()
        }
        object.__setattr__(self, "trajectories", paths)
        if comparison is not None and not isinstance(comparison, VoteComparison):
            raise TypeError(f"`comparison` must be a VoteComparison; got {type(comparison).__name__}.")
        object.__setattr__(self, "comparison", comparison)

    def html(self) -> str:
        """Return the page."""
        for room in _ROOMS:
            page = rendered(
                "page.html", self._content(room), script=resource("page.js"), style=resource("page.css")
            )
            if len(page.encode()) < _MOST_BYTES:
                break
        return page

    def markdown(self) -> str:
        """Return the verdict, the advice and the tables as Markdown."""
        return rendered(self._kind.markdown, self._content())

    def model_card(
        self,
        *,
        what: str | None = None,
        use: str | None = None,
        data: str | None = None,
        limits: str | None = None,
    ) -> str:
        """Return a model card as Markdown: what it is, its data, measures with intervals, where it errs, its limits.

        The numbers are those of the assessment. What no assessment knows can be given as Markdown.

        Parameters
        ----------
        what : str, optional
            What the model is and who made it.
        use : str, optional
            What it is meant for, and what not.
        data : str, optional
            Where the samples of training and assessment are from.
        limits : str, optional
            Limits beside those that follow from the assessment.

        Returns
        -------
        str
            A card for one ensemble; a report on several, or on a panel without a truth, raises ValueError.

        Examples
        --------
        >>> from counterpoint import assess
        >>> report = EnsembleReport(assess([0, 0, 1, 1], [[0, 1, 1, 1], [0, 1, 0, 1]], name="two filters"))
        >>> card = report.model_card(use="To sort the mail of this team.")
        >>> [line for line in card.splitlines() if line.startswith("#")]
        ['# Model card: two filters', '## Data', '## How good it is', '## Where it errs', '## Limits']
        """
        if len(self.assessments) > 1:
            raise ValueError(
                f"A model card is about one ensemble; this report is on {len(self.assessments)}."
            )
        if self._kind.card is None:
            raise ValueError("A model card needs a truth: without one nobody can tell how good the model is.")
        found = self._kind.card(self.assessments[0])
        given = {"what": what, "use": use, "data": data, "limits_given": limits, "date": self.date}
        return f"{rendered('card.md', found | given)}\n"

    def to_json(self) -> str:
        """Return the assessments as JSON; ``Assessment.from_dict`` reads each of them."""
        data = {
            "schema": _SCHEMA,
            "counterpoint": __version__,
            "title": self.title,
            "date": self.date,
            "assessments": [assessment.to_dict() for assessment in self.assessments],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }
        return json.dumps(data, allow_nan=False)

    def write_html(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path-like
            The file. Its folder is created if missing; an existing file is replaced atomically.

        Returns
        -------
        Path
            The path.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from counterpoint import assess
        >>> report = EnsembleReport(assess([0, 0, 1, 1], [[0, 1, 1, 1], [0, 1, 0, 1]]))
        >>> with TemporaryDirectory() as folder:
        ...     report.write_html(f"{folder}/report.html").read_text(encoding="utf-8")[:15]
        '<!DOCTYPE html>'
        """
        target = check_path(path, "path")
        page = self.html().encode()
        with replacing(target) as file:
            file.write(page)
        return target

    def __repr__(self) -> str:
        names = ", ".join(repr(shorten(assessment.name, 40)) for assessment in self.assessments)
        return f"<EnsembleReport on {names}>"

    def _repr_html_(self) -> str:
        # An iframe keeps the styles and scripts of page and notebook apart.
        return (
            f'<iframe title="{escape(repr(self))}" sandbox="allow-scripts" srcdoc="{escape(self.html())}" '
            'style="width: 100%; height: 720px; border: 0"></iframe>'
        )

    def _content(self, room: float = 1.0) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if isinstance(self.assessments[0], Assessment):
            given = {"paths": self.trajectories, "comparison": self.comparison}
        data = self._kind.content(self.assessments, self.title, self.date, room, **given)
        return data | {"sections_of_kind": self._kind.sections}

    @property
    def _kind(self) -> _Kind:
        return _KINDS[_one_kind(self.assessments)]


def _one_kind(given: Sequence[Any]) -> type[AssessmentBase]:
    """Return the class of the assessments, which are all of one."""
    if not given:
        raise ValueError("`assessments` must hold at least one Assessment; got none.")
    kinds = [next((kind for kind in _KINDS if isinstance(entry, kind)), None) for entry in given]
    for entry, kind in zip(given, kinds, strict=True):
        if kind is None:
            raise TypeError(
                f"`assessments` must be an Assessment or a sequence of them; got {type(entry).__name__}."
            )
        if kind is not kinds[0]:
            names = f"{type(given[0]).__name__} and {type(entry).__name__}"
            raise ValueError(f"`assessments` must all be of one kind to be compared; got {names}.")
    return cast(type[AssessmentBase], kinds[0])


def _trajectory(given: Any, name: str) -> OperatingPoint:
    """Return a path on the plane as two rows of equal length."""
    try:
        r_tl, r_ll = map(np.asarray, given)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a pair (r_tl, r_ll); got {given!r}.") from None
    rows = {f"{name}.r_tl": r_tl, f"{name}.r_ll": r_ll}
    known = [_correlations(values, part) for part, values in rows.items()]
    check_broadcast(**rows)
    return OperatingPoint(*np.broadcast_arrays(*known))


def _correlations(values: ArrayLike, name: str) -> FloatArray:
    """Return a row of correlations, NaN in epochs where they are undefined."""
    known = check_real(np.nan_to_num(values, posinf=np.inf, neginf=-np.inf), name)
    defined = check_interval(np.where(np.abs(known) < _ONE, known.clip(-1, 1), known), name, -1, 1)
    if defined.ndim > 1:
        raise ValueError(f"`{name}` must be a number or a row of numbers; got shape {defined.shape}.")
    return np.atleast_1d(np.where(np.isnan(values), np.nan, defined))


def _uniquely_named(assessments: Sequence[Any]) -> tuple[Any, ...]:
    taken = {assessment.name for assessment in assessments}
    seen: set[str] = set()
    result = []
    for assessment in assessments:
        name, count = assessment.name, 1
        while name in seen:
            count += 1
            candidate = f"{assessment.name} ({count})"
            name = candidate if candidate not in taken else name
        seen.add(name)
        result.append(assessment if name == assessment.name else replace(assessment, name=name))
    return tuple(result)
