"""The command line.

Libraries are imported inside the commands, so that ``counterpoint --help`` is instant. An error is
one red sentence on stderr and exit code 2; ``--debug`` gives the traceback.
"""

import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import counterpoint
from counterpoint.cli import _arena, _ensembles, _models
from counterpoint.experiments import TARGETS

__all__ = ["app", "main"]

FAILED = 2
INTERRUPTED = 130

app = typer.Typer(
    help="Ensembles that are accurate [b]and[/b] diverse: theory, measures, honest experiments.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)

Out = Annotated[Path, typer.Option(help="Folder to write to.", show_default=True)]

# Targets that alone take an option say so in its help.
_PRETRAINED = "table-4, table-5, table-6"
_CONVNETS = "image-dial, image-map, image-scratch"

Epochs = Annotated[int | None, typer.Option(min=1, help=f"Epochs of each network alone ({_PRETRAINED}).")]
MoreEpochs = Annotated[
    int | None, typer.Option(min=1, help=f"Epochs of an ensemble after that ({_PRETRAINED}).")
]
Size = Annotated[int | None, typer.Option(min=16, help=f"Pixels that images are resized to ({_PRETRAINED}).")]
Networks = Annotated[str | None, typer.Option(help=f"Such as resnet18,mobilenet_v2 ({_PRETRAINED}).")]
Parts = Annotated[
    str | None,
    typer.Option(help=f"Beginnings of the names of parts, such as width-8,cifar10-w8 ({_CONVNETS})."),
]
Weights = Annotated[
    Path | None,
    typer.Option(help=f"Folder of NAME.safetensors; by default torchvision's download ({_PRETRAINED})."),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the program; by default what the shell gave.

    Returns
    -------
    int
        0, or 2 after an error, or 130 if interrupted.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    counterpoint ...
    0
    """
    given, debug = _take_debug(sys.argv[1:] if arguments is None else arguments)
    # typer.main.get_command, unlike calling the app, leaves sys.excepthook alone.
    command = typer.main.get_command(app)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = command(given, prog_name="counterpoint", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            _say(_sentence(error), style="red")
        return FAILED
    if code == INTERRUPTED:
        _say("Interrupted.", style="red")
    return code or 0


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterpoint {counterpoint.__version__}")
        raise typer.Exit


def _complete_target(incomplete: str) -> list[tuple[str, str]]:
    return [(name, t.title) for name, t in TARGETS.items() if name.startswith(incomplete)]


@app.callback(invoke_without_command=True)
def _front(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    out: Out = Path("out/demo"),
    data: Annotated[str, typer.Option(help="An embedded data set, such as iris.")] = "segment",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random draw.")] = 0,
) -> None:
    """Train ensembles of trees and of networks and see where they stand against the bound."""
    from counterpoint.experiments.demo import demo as run

    run(out, data=data, seed=seed)


@app.command()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Such as figure-3.", autocompletion=_complete_target),
    ] = None,
    out: Out = Path("out"),
    n_learners: Annotated[int | None, typer.Option(help="Number of learners (figure-3, figure-5).")] = None,
    # Repeats count on from it, and scikit-learn's seeds end at 2**32 - 1.
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of every random draw.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of images or tables; by default what COUNTERPOINT_DATA names.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats of the cross-validation (table-3).")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Such as cpu or cuda; by default the GPU if any.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help=f"Number of seeds ({_PRETRAINED}, {_CONVNETS}).")
    ] = None,
    epochs: Epochs = None,
    more_epochs: MoreEpochs = None,
    size: Size = None,
    networks: Networks = None,
    weights: Weights = None,
    parts: Parts = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help=f"Compile the networks for training ({_PRETRAINED}).")
    ] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Run in seconds, on small data.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List what can be made and stop.")] = False,
) -> None:
    """Make a table or figure of the paper again; without a name, list them."""
    if name is None or list_:
        _list_targets()
        return
    from counterpoint.experiments import reproduce as run

    options: dict[str, Any] = {
        "n_learners": n_learners,
        "seed": seed,
        "data": data,
        "repeats": repeats,
        "device": device,
        "seeds": seeds,
        "epochs": epochs,
        "more_epochs": more_epochs,
        "size": size,
        "networks": None if networks is None else [name.strip() for name in networks.split(",")],
        "weights": weights,
        "parts": parts,
        "compiled": compiled or None,
        "smoke": smoke or None,
    }
    paths = run(name, out, **{key: value for key, value in options.items() if value is not None})
    typer.echo(TARGETS[name].title)
    for path in paths:
        typer.echo(f"  {path}")


app.command(epilog=_ensembles.ASSESS_EXAMPLES)(_ensembles.assess)
app.command(epilog=_ensembles.COMPARE_EXAMPLES)(_ensembles.compare)
app.command(epilog=_ensembles.SELECT_EXAMPLES)(_ensembles.select)
app.command(epilog=_models.FIT_EXAMPLES)(_models.fit)
app.command(epilog=_models.PREDICT_EXAMPLES)(_models.predict)
app.command(epilog=_arena.EXAMPLES)(_arena.arena)


def _list_targets() -> None:
    width = max(map(len, TARGETS))
    for name, target in TARGETS.items():
        typer.echo(f"{name:{width}}  {target.title}")


def _take_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` out, wherever it stands before a ``--``."""
    given = list(arguments)
    end = given.index("--") if "--" in given else len(given)
    options = [argument for argument in given[:end] if argument != "--debug"]
    return options + given[end:], len(options) < end


def _sentence(error: Exception) -> str:
    """Return what went wrong, on one line."""
    if hasattr(error, "format_message"):  # a usage error, in every version of typer
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    elif isinstance(error, ImportError | OSError | TypeError | ValueError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error} (run again with --debug for the traceback)"
    line = " ".join(text.split()) or type(error).__name__
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"Warning: {message}", style="yellow")


def _say(text: str, *, style: str) -> None:
    """Print to stderr, in colour on a terminal; a pipe gets the line unbroken."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)
