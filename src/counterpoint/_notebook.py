"""What results look like in a notebook: small tables, curves and progress.

Colours and fonts are those of the notebook, light or dark, and every text is escaped.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from counterpoint._validation import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_LEFT = ' style="text-align: left"'
_WIDTH, _HEIGHT, _EDGE = 260, 110, 4
_SECONDS = 0.1  # between two pictures of a bar
_COLUMNS = 100  # of a bar in a notebook


def html_block(title: str, text: str, *parts: str) -> str:
    """Return a heading, a sentence and parts that are HTML already.

    Examples
    --------
    >>> html_block("<b>", "Five learners.", html_list(["one & two"]))
    '<div><h4>&lt;b&gt;</h4><p>Five learners.</p><ul><li>one &amp; two</li></ul></div>'
    """
    sentence = f"<p>{_escaped(text)}</p>" if text else ""
    return f"<div><h4>{_escaped(title)}</h4>{sentence}{''.join(parts)}</div>"


def html_list(items: Iterable[str]) -> str:
    """Return a list of texts; nothing if there are none.

    Examples
    --------
    >>> html_list([])
    ''
    """
    lines = "".join(f"<li>{_escaped(item)}</li>" for item in items)
    return f"<ul>{lines}</ul>" if lines else ""


def html_table(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return a table of texts, the first of each row as its heading; nothing if there are no rows.

    Examples
    --------
    >>> html_table([("<judge>", "0.9")], ("learner", "right")).count("&lt;judge&gt;</th><td")
    1
    """
    body = "".join(
        f"<tr><th{_LEFT}>{_escaped(row[0])}</th>{''.join(f'<td{_LEFT}>{_escaped(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    if not body:
        return ""
    head = "".join(f"<th{_LEFT}>{_escaped(cell)}</th>" for cell in header)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def svg_curves(title: str, curves: Mapping[str, Sequence[float]], mark: int | None = None) -> str:
    """Return curves over the epochs as a small picture: the first one solid, others dashed.

    Values that are not finite leave a gap. ``mark`` is an epoch, from 1, to draw a line at.

    Examples
    --------
    >>> svg_curves("loss", {"training": [0.5, float("nan"), 0.25]}).count("<circle")
    2
    """
    known = [value for values in curves.values() for value in values if math.isfinite(value)]
    if not known:
        return ""
    low, high = min(known), max(known)
    length = max(map(len, curves.values()))
    inner = _HEIGHT - 2 * _EDGE

    def place(epoch: int, value: float) -> tuple[str, str]:
        x = _EDGE + (_WIDTH - 2 * _EDGE) * (epoch / (length - 1) if length > 1 else 0.5)
        y = _EDGE + inner * ((high - value) / (high - low) if high > low else 0.5)
        return f"{x:.1f}", f"{y:.1f}"

    drawn = []
    for number, values in enumerate(curves.values()):
        dash = ' stroke-dasharray="4 3"' if number else ""
        for run in _runs(values):
            points = [place(epoch, values[epoch]) for epoch in run]
            if len(points) == 1:
                (x, y) = points[0]
                drawn.append(f'<circle cx="{x}" cy="{y}" r="2" fill="currentColor" stroke="none"/>')
            else:
                drawn.append(f'<polyline points="{" ".join(map(",".join, points))}"{dash}/>')
    if mark is not None:
        x, _ = place(mark - 1, low)
        drawn.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{_HEIGHT}" stroke-width="1" stroke-opacity="0.4"/>')
    names = ", ".join(f"{name} {'dashed' if number else 'solid'}" for number, name in enumerate(curves))
    caption = _escaped(f"{title}: {low:.3g} to {high:.3g}" + (f" ({names})" if len(curves) > 1 else ""))
    return (
        f'<figure style="display: inline-block; margin: 0 1em 0.5em 0"><figcaption>{caption}</figcaption>'
        f'<svg role="img" aria-label="{caption}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5">{"".join(drawn)}</svg></figure>'
    )


def _runs(values: Sequence[float]) -> list[list[int]]:
    """Return the epochs of finite values, apart where others lie between."""
    runs: list[list[int]] = [[]]
    for epoch, value in enumerate(values):
        if math.isfinite(value):
            runs[-1].append(epoch)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def progress_bar(*columns: Any, console: "Console", disable: bool = False, **options: Any) -> "Progress":
    """Return a progress bar of rich, which in a notebook is one line of text that is rewritten.

    The bar of rich itself shows nothing in a notebook without ipywidgets.

    Examples
    --------
    >>> from rich.console import Console
    >>> with progress_bar(console=Console(quiet=True)) as bar:
    ...     task = bar.add_task("jobs", total=3)
    ...     bar.update(task, completed=3)
    >>> bar.finished
    True
    """
    from rich.progress import Progress

    if not console.is_jupyter or disable:
        return Progress(*columns, console=console, disable=disable, **options)

    class NotebookProgress(Progress):
        _shown: Any = None
        _next = 0.0

        def update(self, *arguments: Any, **fields: Any) -> None:
            super().update(*arguments, **fields)
            if self.live.auto_refresh and time.monotonic() >= self._next:
                self.refresh()

        def start(self) -> None:
            self.refresh()

        def refresh(self) -> None:
            self._next = time.monotonic() + _SECONDS
            self._write(_as_text(self.get_renderable()))

        def stop(self) -> None:
            self._write("" if self.live.transient else _as_text(self.get_renderable()))

        def _write(self, text: str) -> None:
            from IPython.display import display

            data = {"text/plain": text}
            if self._shown is None:
                self._shown = display(data, raw=True, display_id=True)
            else:
                self._shown.update(data, raw=True)

    return NotebookProgress(*columns, console=console, **options)


def _as_text(renderable: Any) -> str:
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=_COLUMNS, force_jupyter=False, color_system=None).print(renderable)
    return file.getvalue().rstrip()


def _escaped(text: str) -> str:
    return escape(printable(text))
