"""The options that every command has, and their effect: ``--quiet``, ``--verbose``, ``--json``."""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import typer

from counterpoint.cli._printing import echo, words_to

__all__ = ["Json", "Markdown", "with_common_options"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on stdout.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown and nothing else on stdout.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no words but errors; data that is asked for is printed.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print on stderr what is done.")]


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with ``--quiet`` and ``--verbose``; its words go to stderr if stdout is for data."""

    @functools.wraps(command)
    def run(*, quiet: bool = False, verbose: bool = False, **given: Any) -> None:
        if quiet and verbose:
            raise ValueError("`--quiet` and `--verbose` must not be given together.")
        with ExitStack() as stack:
            if given.get("as_json") or given.get("as_markdown"):
                stack.enter_context(words_to("stderr"))
            if quiet:
                stack.enter_context(words_to("nowhere"))
            if verbose:
                stack.enter_context(_showing_logs())
            command(**given)

    common = {"quiet": Quiet, "verbose": Verbose}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in common.items()
    ]
    own = inspect.signature(command)
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    run.__annotations__ = command.__annotations__ | common
    return run


class _EchoHandler(logging.Handler):
    """Prints what is logged as a note."""

    def emit(self, record: logging.LogRecord) -> None:
        echo(self.format(record), err=True)


@contextmanager
def _showing_logs() -> Iterator[None]:
    """Print what the library logs while the block runs."""
    logger = logging.getLogger("counterpoint")
    handler = _EchoHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
