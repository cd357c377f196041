"""What the commands that read predictions share: their options, and the reading itself."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from counterpoint.cli._printing import has_bars
from counterpoint.io import ARRAY_FORMATS, TABLE_FORMATS, file_stem, format_names

if TYPE_CHECKING:
    from counterpoint.io import Predictions

# A smaller file is read before anyone could read a progress bar.
_BYTES_WITH_BAR = 10_000_000
STANDARD_INPUT = "-"

File = Annotated[
    Path,
    typer.Argument(
        metavar="PREDICTIONS",
        help=f"{format_names(TABLE_FORMATS)} with a column for each learner, or {format_names(ARRAY_FORMATS)} with "
        "outputs; - is standard input.",
        show_default=False,
    ),
]
Files = Annotated[
    list[Path],
    typer.Argument(metavar="PREDICTIONS...", help="One file per ensemble.", show_default=False),
]
Truth = Annotated[
    str,
    typer.Option(
        "--truth",
        "-t",
        metavar="COLUMN",
        help="Column, or array in an NPZ file, with the truth; or an NPY file.",
    ),
]
Learner = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Read only this learner; may be repeated.", show_default=False),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Leave out this column or learner; may be repeated.", show_default=False
    ),
]
Item = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column that names the samples.", show_default=False),
]
Judge = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Long table with a row for each label: column that names the learner.",
        show_default=False,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Long table: column of the labels.", show_default=False),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column that names what a sample belongs to, such as a document; intervals allow for it.",
        show_default=False,
    ),
]
Abstain = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL",
        help="Label that means no vote, as a blank cell does; may be repeated.",
        show_default=False,
    ),
]
IgnoreCase = Annotated[
    bool,
    typer.Option(
        "--ignore-case",
        help="Count labels as one that differ in case, blanks around them or final punctuation alone.",
    ),
]
FileFormat = Annotated[
    Literal["csv", "tsv", "jsonl", "json"] | None,
    typer.Option(
        "--format",
        help="Format of a table; by default that of the suffix, or of the first bytes of standard input.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Layout:
    """Which columns of a table have a role beside the learners', and the format of the file."""

    item: str | None = None
    judge: str | None = None
    label: str | None = None
    file_format: str | None = None
    group: str | None = None
    abstain: Sequence[str] = ()
    scores: bool = False
    ignore_case: bool = False


def read_ensemble(
    path: Path,
    truth: str | None,
    learner: Sequence[str] | None,
    drop: Sequence[str] | None,
    layout: Layout,
    source: Path | BinaryIO | None = None,
) -> "Predictions":
    """Read predictions from a file or from standard input, which may be open already."""
    from counterpoint.io import read_predictions

    large = path.is_file() and path.stat().st_size > _BYTES_WITH_BAR
    return read_predictions(
        opened(path) if source is None else source,
        truth,
        learners=learner or (),
        drop=drop or (),
        item=layout.item,
        judge=layout.judge,
        label=layout.label,
        group=layout.group,
        abstain=layout.abstain,
        ignore_case=layout.ignore_case,
        scores=layout.scores,
        file_format=layout.file_format,
        progress=large and has_bars(),
    )


def check_known(read: "Predictions", path: Path) -> None:
    """Raise ValueError if the truth of some samples is blank, for work that needs all of it."""
    import numpy as np

    if read.y_true is not None and (count := int(np.ma.getmaskarray(read.y_true).sum())):
        raise ValueError(
            f"{shown(path)} must have a truth in every row; {count} of {len(read.y_true)} are blank."
        )


def check_complete(read: "Predictions", path: Path) -> None:
    """Raise ValueError if a learner has blank cells, for a selection, which needs every label."""
    import numpy as np

    if not np.ma.is_masked(read.outputs):
        return
    counts = read.missing.sum(axis=1)
    blank = [(int(count), name) for count, name in zip(counts, read.learners, strict=True) if count]
    blank.sort(key=lambda pair: -pair[0])
    (most, name), *others = blank
    more = f", and {others[0][0]} of {others[0][1]!r}" if len(others) == 1 else ""
    if len(others) > 1:
        more = f", and {sum(count for count, _ in others)} of {len(others)} other learners"
    raise ValueError(
        f"{shown(path)} must have no blank cells to select from; {most} of the {read.missing.shape[1]} cells of "
        f"{name!r} {'is' if most == 1 else 'are'} blank{more}."
    )


def opened(path: Path) -> Path | BinaryIO:
    """Return the path, or standard input."""
    return sys.stdin.buffer if str(path) == STANDARD_INPUT else path


def shown(path: Path) -> str:
    """Return a file's name in messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def title(path: Path) -> str:
    """Return the name of an ensemble that is read from a file."""
    return shown(path) if str(path) == STANDARD_INPUT else file_stem(path)


def check_output(out: Path | None, inputs: Iterable[Path], option: str) -> None:
    """Raise ValueError if a file to write is one of those to read, under whatever name."""
    for path in inputs:
        if out is not None and out.exists() and path.exists() and out.samefile(path):
            raise ValueError(f"`{option}` must not be the file that is read; got {str(out)!r}.")


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Add the name of the file to errors about its contents."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{shown(path)}: {error}") from error
