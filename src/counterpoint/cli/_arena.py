"""The command that compares methods on the same folds: arena."""

import math
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterpoint.cli._options import Json
from counterpoint.cli._printing import console, echo, echo_json, is_quiet
from counterpoint.io import TABLE_FORMATS, file_stem, format_names

if TYPE_CHECKING:
    from counterpoint.arena import Table
    from counterpoint.records import Grid

EXAMPLES = """[b]Examples[/b]

counterpoint arena --sets labor,iris --methods independent,diversity,random-forest

counterpoint arena --data animals.csv --target species --out out/animals

counterpoint arena --suite all --list

counterpoint arena --suite uci15 --jobs 4"""

DEFAULT_SUITE = "uci15"
_GAP = "  "  # between columns
_OF_REPORTS = (
    "data",
    "out",
    "smoke",
    "report_only",
    "as_json",
    "quiet",
    "verbose",
)  # where they are, how to print
# spelled out, since importing them would slow down every command
METHOD_NAMES = (
    "one-net, independent, bagged, joint, joint-logits, ncl, diversity, diversity-0.5, diversity-0.9, diverse-cv, "
    "correlation-0.25, correlation-0.5, correlation-0.9, correlation-1.0, correlation-cv, decorate-tree, decorate-net, "
    "random-forest, extra-trees, hist-gradient-boosting, lightgbm, catboost, tabm, greedy-selection, stack"
)

Methods = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Methods to compare, or all. By default all that are installed; for a file, those in common use. "
        f"They are: {METHOD_NAMES}.",
        show_default=False,
    ),
]
Results = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        help="Folder for the results; by default results/arena, for a file out/arena-NAME, with --smoke "
        "out/arena-smoke or out/arena-NAME-smoke.",
        show_default=False,
    ),
]

Data = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=f"Your own table: {format_names(TABLE_FORMATS)}.", show_default=False),
]
Target = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Its column with the classes.", show_default=False)
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column to leave out; may be repeated.", show_default=False),
]
Suite = Annotated[
    str | None,
    typer.Option(
        help="uci15: the fifteen tables of the DECORATE study; real: these and six more; all: also fourteen that a "
        "rule defines. Tables that cannot be had are left out with a sentence.",
        show_default=False,
    ),
]
Sets = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Some tables of the suites.", show_default=False)
]
List = Annotated[
    bool, typer.Option("--list", help="List the tables of the suite, their sources and terms; run nothing.")
]
Repeats = Annotated[
    int | None,
    typer.Option(
        min=1, help="Repeats of the cross-validation; by default 3, with --smoke 1.", show_default=False
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the tables; by default the variable COUNTERPOINT_DATA.", show_default=False
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(min=2, help="Number of outer folds; by default 10, with --smoke 3.", show_default=False),
]
Jobs = Annotated[
    int, typer.Option(help="Folds to run in parallel, for methods other than networks; -1: one per core.")
]
Smoke = Annotated[
    bool,
    typer.Option(
        "--smoke", help="Run in seconds with tiny learners, on labor and iris unless tables are named."
    ),
]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Write the report of what --out holds; run nothing.")
]


def arena(
    context: typer.Context,
    data: Data = None,
    target: Target = None,
    drop: Drop = None,
    suite: Suite = None,
    sets: Sets = None,
    data_dir: DataFolder = None,
    methods: Methods = None,
    repeats: Repeats = None,
    folds: Folds = None,
    out: Results = None,
    jobs: Jobs = 1,
    device: Annotated[str, typer.Option(help="Device for the networks, such as cpu or cuda.")] = "auto",
    smoke: Smoke = False,
    report_only: ReportOnly = False,
    list_tables: List = False,
    as_json: Json = False,
) -> None:
    """Compare ensembles on the same folds, and see whether explicit diversity pays."""
    from counterpoint.arena import arena as run
    from counterpoint.arena import list_suite, write_report

    if list_tables:
        listed = list_suite(_checked_suite(suite))
        if as_json:
            echo_json([dict(zip(listed.headings, row, strict=True)) for row in listed.rows])
        else:
            _print(listed)
        return
    folder = out or _folder(data, smoke=smoke)
    if report_only:
        _refuse_settings(context)
        paths = write_report(folder)
    else:
        tables = _tables(data, target, drop, suite, sets, data_dir, smoke=smoke)
        names = _methods(methods, own=data is not None)
        paths = run(
            tables,
            folder,
            methods=names,
            repeats=repeats,
            folds=folds,
            n_jobs=jobs,
            device=device,
            smoke=smoke,
            progress=not is_quiet(),
        )
    _show(folder, paths, as_json=as_json)


def _refuse_settings(context: typer.Context) -> None:
    """Raise ValueError for options that have no effect where nothing is run."""
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name not in _OF_REPORTS:
            raise ValueError(f"`--{name.replace('_', '-')}` has no meaning with `--report-only`.")


def _folder(data: Path | None, *, smoke: bool) -> Path:
    """Return the default folder; results of a file or of a smoke run are kept apart from those of the suite."""
    if data is None:
        return Path("out/arena-smoke" if smoke else "results/arena")
    return Path(f"out/arena-{file_stem(data)}{'-smoke' if smoke else ''}")


def _tables(
    data: Path | None,
    target: str | None,
    drop: list[str] | None,
    suite: str | None,
    sets: str | None,
    data_dir: Path | None,
    *,
    smoke: bool,
) -> "list[Table]":
    from counterpoint.arena import SUITES, read_available, read_suite, read_table

    given = [name for name, value in (("data", data), ("suite", suite), ("sets", sets)) if value is not None]
    if len(given) > 1:
        raise ValueError(f"`--{given[1]}` must not be given together with `--{given[0]}`.")
    if (data is None) != (target is None):
        raise ValueError("`--data` and `--target` must be given together; got one of them.")
    if data is not None and target is not None:
        return [read_table(data, target, drop=drop or ())]
    if drop:
        raise ValueError("`--drop` must be given together with `--data`.")
    if sets is not None:
        return read_suite(_listed(sets), data_dir)
    if suite is None and smoke:
        return read_suite(["labor", "iris"])
    tables, missing = read_available(SUITES[_checked_suite(suite)], data_dir)
    for name, reason in missing.items():
        echo(f"{name} is left out: {reason}", err=True)
    if not tables:
        raise ValueError("`--suite` must have a table that can be had; got none.")
    return tables


def _checked_suite(suite: str | None) -> str:
    from counterpoint._validation import check_choice
    from counterpoint.arena import SUITES

    return str(check_choice(suite or DEFAULT_SUITE, "--suite", tuple(SUITES)))


def _methods(given: str | None, *, own: bool) -> list[str]:
    """Return the names of the methods; by default those that are installed, and a sentence on the others."""
    from counterpoint.arena import METHODS, USUAL
    from counterpoint.arena.methods import available

    if given not in (None, "all"):
        return _listed(str(given))
    wanted = USUAL if own and given is None else tuple(METHODS)
    found = available(wanted)
    if missing := [name for name in wanted if name not in found]:
        what = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} left out"
        echo(f'{what}: install what is needed with: pip install "counterpoint[arena]".', err=True)
    return found


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _show(folder: Path, paths: list[Path], *, as_json: bool) -> None:
    import json

    from counterpoint.arena import overview
    from counterpoint.arena.page import sentences

    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if as_json:
        echo_json(summary | {"files": [str(path) for path in paths]})
        return
    grid = overview(summary)
    if grid.rows:
        screen = console()
        _print(grid, screen.width if screen.is_terminal else math.inf)
        echo()
    for sentence in sentences(summary):
        echo(sentence)
    for path in paths:
        echo(f"  {path}")


def _print(grid: "Grid", most: float = math.inf) -> None:
    """Print a table with aligned columns, words to the left and numbers to the right: those that fit a width."""
    columns = []
    for column in zip(grid.headings, *grid.rows, strict=True):
        words = not all(cell[:1] in "0123456789[" for cell in column[1:])
        width = max(map(len, column))
        columns.append([cell.ljust(width) if words else cell.rjust(width) for cell in column])
    ends = accumulate(len(column[0]) + len(_GAP) for column in columns)
    n_fit = max(1, sum(end - len(_GAP) <= most for end in ends))
    echo(grid.title)
    for row in zip(*columns[:n_fit], strict=True):
        echo(_GAP.join(row).rstrip())
    if n_fit < len(columns):
        echo(f"A wider terminal also shows: {', '.join(grid.headings[n_fit:])}.")
