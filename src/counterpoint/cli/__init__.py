"""The command line.

Commands import the libraries they need, so that ``counterpoint --help`` is instant. An error prints one red sentence on
stderr and returns exit code 2; ``--debug`` prints the traceback. ``_options`` has the options of every command.
"""

import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import counterpoint
from counterpoint.cli import _arena, _ensembles, _models, _select, _vote
from counterpoint.cli._options import Json, with_common_options
from counterpoint.cli._printing import as_text, console, replace_unprintable

__all__ = ["app", "main", "run_app"]

FAILED = 2
INTERRUPTED = 130
_LONGEST = 1000  # characters of a message

app = typer.Typer(
    help="Train, assess and compare ensembles that are accurate [b]and[/b] diverse.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)

Out = Annotated[Path, typer.Option(help="Folder to write to.", show_default=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments of the program; by default those of the shell.

    Returns
    -------
    int
        0, or 2 after an error, or 130 if interrupted, or 1 if nobody reads the output to its end.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    counterpoint ...
    0
    """
    return run_app(app, "counterpoint", arguments)


def run_app(program: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a typer program with the errors and exit codes of the command line.

    Parameters
    ----------
    program : typer.Typer
        The program.
    name : str
        Its name in help texts.
    arguments : sequence of str, optional
        The arguments of the program; by default those of the shell.

    Returns
    -------
    int
        0, or 2 after an error, or 130 if interrupted.

    Examples
    --------
    >>> run_app(app, "counterpoint", ["--version"])  # doctest: +ELLIPSIS
    counterpoint ...
    0
    """
    options, debug = _split_debug(sys.argv[1:] if arguments is None else arguments)
    # Unlike calling the app, typer.main.get_command does not replace sys.excepthook.
    command = typer.main.get_command(program)
    replace_unprintable()
    try:
        _check_utf8(options)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = command(options, prog_name=name, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            _say(_sentence(error), style="red")
            if added := getattr(error, "options", ()):
                _say(f"Go on with: {_with_options(name, options, added)}", style="red")
        return FAILED
    if code == INTERRUPTED:
        _say("Interrupted.", style="red")
    return code or 0


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterpoint {counterpoint.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _front(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def demo(
    out: Out = Path("out/demo"),
    data: Annotated[str, typer.Option(help="An embedded data set, such as iris.")] = "segment",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random draw.")] = 0,
    as_json: Json = False,
) -> None:
    """Train ensembles of trees and networks, and compare them with the theoretical bound."""
    from counterpoint.cli._demo import demo as run

    run(out, data=data, seed=seed, as_json=as_json)


COMMANDS: dict[Callable[..., None], str | None] = {  # with the examples of their help texts
    demo: None,
    _ensembles.assess: _ensembles.ASSESS_EXAMPLES,
    _ensembles.compare: _ensembles.COMPARE_EXAMPLES,
    _select.select: _select.EXAMPLES,
    _vote.vote: _vote.EXAMPLES,
    _models.fit: _models.FIT_EXAMPLES,
    _models.predict: _models.PREDICT_EXAMPLES,
    _arena.arena: _arena.EXAMPLES,
}
for _command, _examples in COMMANDS.items():
    app.command(epilog=_examples)(with_common_options(_command))


def _check_utf8(arguments: Sequence[str]) -> None:
    """Raise ValueError if a name is not UTF-8, which could be neither printed nor written, before any work is done."""
    for argument in arguments:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise ValueError(f"Names of files and columns must be UTF-8; got {argument!r}.")


def _split_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments without ``--debug``, and True if it stood anywhere before a ``--``."""
    given = list(arguments)
    end = given.index("--") if "--" in given else len(given)
    options = [argument for argument in given[:end] if argument != "--debug"]
    return options + given[end:], len(options) < end


def _sentence(error: Exception) -> str:
    """Return the error as one sentence on one line."""
    if hasattr(error, "fact"):  # the command that follows says what to do
        text = error.fact
    elif hasattr(error, "format_message"):  # a usage error, in every version of typer
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    elif isinstance(error, ImportError | OSError | TypeError | ValueError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error} (run again with --debug for the traceback)"
    line = _cut(" ".join(text.split())) or type(error).__name__
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _with_options(name: str, arguments: Sequence[str], options: Sequence[str]) -> str:
    """Return the command that the user gave, with more options."""
    given = list(arguments)
    end = given.index("--") if "--" in given else len(given)
    return shlex.join([name, *given[:end], *options, *given[end:]])


def _cut(line: str) -> str:
    """Return a line without its middle if it is very long, as a name in a file may be."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 4 :]}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(_cut(f"Warning: {message}"), style="yellow")


def _say(text: str, *, style: str) -> None:
    """Print to stderr, in colour on a terminal; do not wrap lines for a pipe."""
    screen = console(err=True)
    screen.print(as_text(text, style), soft_wrap=not screen.is_terminal)
