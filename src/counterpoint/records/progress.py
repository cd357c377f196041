"""Progress of a long run: a bar on a terminal, and a line for each finished job."""

import time
from typing import Self

from counterpoint._validation import printable

__all__ = ["ProgressReporter"]


class ProgressReporter:
    """Progress on stderr: a line for each finished job, and a bar if it is a terminal.

    Parameters
    ----------
    total : int
        Number of jobs.
    enabled : bool, default=True
        Whether to show anything.

    Examples
    --------
    >>> with ProgressReporter(2, enabled=False) as report:
    ...     report.now("first")
    ...     report.done("first: 1 s")
    >>> report.count
    1
    """

    def __init__(self, total: int, *, enabled: bool = True) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, soft_wrap=True, highlight=False, quiet=not enabled)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=total)
        self.start, self.count, self.total = time.perf_counter(), 0, total

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def now(self, words: str, share: float = 0.0) -> None:
        """Show what is running, and the share of it that is done."""
        self.bar.update(self.task, description=printable(words), completed=round(self.count + share, 2))

    def done(self, words: str) -> None:
        """Count a job as finished and print a line about it."""
        self.count += 1
        self.bar.update(self.task, completed=self.count)
        spent = time.perf_counter() - self.start
        self.bar.console.print(f"[{self.count}/{self.total}, {spent:.0f} s] {printable(words)}", markup=False)
