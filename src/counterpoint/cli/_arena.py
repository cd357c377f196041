"""The command that compares methods on the same folds: arena."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterpoint.io import TABLE_FORMATS, file_stem, format_names

if TYPE_CHECKING:
    from counterpoint.arena import Table

EXAMPLES = """[b]Examples[/b]

counterpoint arena --sets labor,iris --methods independent,diversity,random-forest

counterpoint arena --data animals.csv --target species --out out/animals

counterpoint arena --suite uci15 --jobs 4 --repeats 3"""

SUITES = ("uci15",)
# spelled out, since importing them would slow down every command
METHODS = (
    "one-net, independent, bagged, joint, joint-logits, ncl, diversity, diversity-0.5, diversity-0.9, diverse-cv, "
    "correlation-0.25, correlation-0.5, correlation-0.9, correlation-1.0, correlation-cv, decorate-tree, decorate-net, "
    "random-forest, extra-trees, hist-gradient-boosting, lightgbm, catboost, tabm"
)

Methods = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help=f"Methods to compare; by default all that are installed: {METHODS}.",
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
Suite = Annotated[
    str | None, typer.Option(help="uci15: the fifteen tables of the DECORATE study.", show_default=False)
]
Sets = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Some tables of that suite.", show_default=False)
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
    suite: Suite = None,
    sets: Sets = None,
    data_dir: DataFolder = None,
    methods: Methods = None,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of the cross-validation.")] = 1,
    folds: Folds = None,
    out: Results = None,
    jobs: Jobs = 1,
    device: Annotated[str, typer.Option(help="Device for the networks, such as cpu or cuda.")] = "auto",
    smoke: Smoke = False,
    report_only: ReportOnly = False,
) -> None:
    """Compare ensembles on the same folds, and see whether explicit diversity pays."""
    from counterpoint.arena import arena as run
    from counterpoint.arena import write_report

    folder = out or _folder(data, smoke=smoke)
    if report_only:
        _refuse_settings(context)
        paths = write_report(folder)
    else:
        tables = _tables(data, target, suite, sets, data_dir, smoke=smoke)
        names = [] if methods is None else _listed(methods)
        paths = run(
            tables,
            folder,
            methods=names,
            repeats=repeats,
            folds=folds,
            n_jobs=jobs,
            device=device,
            smoke=smoke,
        )
    _show(folder, paths)


def _refuse_settings(context: typer.Context) -> None:
    """Raise ValueError for options that have no effect where nothing is run."""
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name not in ("data", "out", "smoke", "report_only"):  # which say where the results are
            raise ValueError(f"`--{name.replace('_', '-')}` has no meaning with `--report-only`.")


def _folder(data: Path | None, *, smoke: bool) -> Path:
    """Return the default folder; results of a file or of a smoke run are kept apart from those of the suite."""
    if data is None:
        return Path("out/arena-smoke" if smoke else "results/arena")
    return Path(f"out/arena-{file_stem(data)}{'-smoke' if smoke else ''}")


def _tables(
    data: Path | None,
    target: str | None,
    suite: str | None,
    sets: str | None,
    data_dir: Path | None,
    *,
    smoke: bool,
) -> "list[Table]":
    from counterpoint._validation import check_choice
    from counterpoint.arena import UCI15, read_suite, read_table

    given = [name for name, value in (("data", data), ("suite", suite), ("sets", sets)) if value is not None]
    if len(given) > 1:
        raise ValueError(f"`--{given[1]}` must not be given together with `--{given[0]}`.")
    if (data is None) != (target is None):
        raise ValueError("`--data` and `--target` must be given together; got one of them.")
    if data is not None and target is not None:
        return [read_table(data, target)]
    if sets is not None:
        return read_suite(_listed(sets), data_dir)
    if suite is None and smoke:
        return read_suite(["labor", "iris"])
    check_choice(suite or SUITES[0], "--suite", SUITES)
    return read_suite(UCI15, data_dir)


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _show(folder: Path, paths: list[Path]) -> None:
    import json

    from counterpoint.arena import overview

    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    title, headings, rows, _ = overview(summary)
    if rows:
        typer.echo(title)
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        for first, *numbers in (headings, *rows):
            cells = [first.ljust(widths[0]), *map(str.rjust, numbers, widths[1:])]
            typer.echo("  ".join(cells).rstrip())
        typer.echo()
    for paid in summary["paid"].values():
        if paid:
            typer.echo(paid["sentence"])
    for sentence in summary["uneven"].values():
        typer.echo(sentence)
    for path in paths:
        typer.echo(f"  {path}")
