"""Tables as text, for the terminal and for Markdown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray

if TYPE_CHECKING:
    from rich.table import Table

Numbers = Sequence[float] | FloatArray
NONE = "–"  # noqa: RUF001 - the text of a cell without a number


class Grid(NamedTuple):
    """A table as text: the first ``n_words`` columns hold words, the others numbers.

    Examples
    --------
    >>> from counterpoint.records import markdown
    >>> print(markdown([Grid("Accuracy", ["table", "vote"], [["iris", "0.95"]])]))
    **Accuracy**
    <BLANKLINE>
    | table | vote |
    | --- | ---: |
    | iris | 0.95 |
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    n_words: int = 1


def number(value: float, form: str = ".3f") -> str:
    """Return a number in a form of ``format``, with a true minus sign.

    Examples
    --------
    >>> number(-0.25), number(12.34, "+.1f")
    ('−0.250', '+12.3')
    """  # noqa: RUF002
    return format(value, form).replace("-", "−")  # noqa: RUF001


def mean(values: Numbers, digits: int = 3) -> str:
    """Return the mean as text.

    Examples
    --------
    >>> mean([0.25, 0.5], digits=2)
    '0.38'
    """
    return number(float(np.mean(values)), f".{digits}f")


def spread(values: Numbers, digits: int = 3) -> str:
    """Return mean ± standard deviation as text; only the mean if there is one value.

    Examples
    --------
    >>> spread([0.25, 0.5], digits=2), spread([0.25])
    ('0.38 ± 0.18', '0.250')
    """
    if len(values) < 2:
        return mean(values, digits)
    return f"{mean(values, digits)} ± {np.std(values, ddof=1):.{digits}f}"


def escaped(text: str) -> str:
    r"""Return text escaped for a cell of a Markdown table.

    Examples
    --------
    >>> print(escaped("a|b <i>"))
    a\|b &lt;i>
    """
    return text.replace("|", r"\|").replace("<", "&lt;")


def lines(grid: Grid) -> str:
    """Return a table in Markdown, without its title.

    Examples
    --------
    >>> print(lines(Grid("Errors", ["network", "error"], [["resnet18", "4.2"]])), end="")
    | network | error |
    | --- | ---: |
    | resnet18 | 4.2 |
    """
    rule = ["---" if place < grid.n_words else "---:" for place in range(len(grid.headings))]
    return "".join(f"| {' | '.join(map(escaped, row))} |\n" for row in (grid.headings, rule, *grid.rows))


def markdown(grids: Sequence[Grid]) -> str:
    """Return tables in Markdown, each below its title.

    Examples
    --------
    >>> markdown([Grid("Errors", ["network"], [["resnet18"]])]).splitlines()[0]
    '**Errors**'
    """
    return "\n".join(f"**{grid.title}**\n\n{lines(grid)}" for grid in grids)


def rich_table(grid: Grid) -> "Table":
    """Return a table for the terminal.

    Parameters
    ----------
    grid : Grid
        The table.

    Returns
    -------
    rich.table.Table

    Examples
    --------
    >>> table = rich_table(Grid("Errors", ["network", "error"], [["resnet18", "4.2"]]))
    >>> table.title, table.row_count
    ('Errors', 1)
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=grid.title, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False
    )
    for place, heading in enumerate(grid.headings):
        words = place < grid.n_words
        table.add_column(heading, justify="left" if words else "right", no_wrap=words)
    for row in grid.rows:
        table.add_row(*row)
    return table
