"""Results on disk: records as JSON, a store of finished jobs, and the tables and figures made from them."""

from counterpoint._plain import plain
from counterpoint.records.document import fill, refill
from counterpoint.records.grid import (
    NONE,
    Grid,
    Numbers,
    escaped,
    lines,
    markdown,
    mean,
    number,
    rich_table,
    spread,
)
from counterpoint.records.progress import ProgressReporter
from counterpoint.records.record import (
    read_record,
    versions,
    write_figure,
    write_json,
    write_png,
    write_record,
    write_text,
)
from counterpoint.records.runs import Job, JobRun, Outcome, RunStore, run_jobs

__all__ = [
    "NONE",
    "Grid",
    "Job",
    "JobRun",
    "Numbers",
    "Outcome",
    "ProgressReporter",
    "RunStore",
    "escaped",
    "fill",
    "lines",
    "markdown",
    "mean",
    "number",
    "plain",
    "read_record",
    "refill",
    "rich_table",
    "run_jobs",
    "spread",
    "versions",
    "write_figure",
    "write_json",
    "write_png",
    "write_record",
    "write_text",
]
