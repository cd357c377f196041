"""``python -m paper NAME`` makes a table or figure, or continues a study; without a name it lists them.

``python -m paper docs`` writes the tables and figures of the documents from the committed records.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from counterpoint.cli import run_app
from paper import TARGETS, reproduce
from paper.documents import write_documents

__all__ = ["app", "main"]

app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]}, rich_markup_mode="rich")

Out = Annotated[Path, typer.Option(help="Folder to write to.", show_default=True)]

DOCS = "docs"  # the name that stands for the documents

# The help of an option names the targets that have it, if not all do.
_PRETRAINED = "table-4, table-5, table-6"
_SEEDED = "image-dial, image-heads, image-scratch"
_STUDIES = f"{_SEEDED}, image-rates"

Epochs = Annotated[int | None, typer.Option(min=1, help=f"Epochs of each network alone ({_PRETRAINED}).")]
MoreEpochs = Annotated[
    int | None, typer.Option(min=1, help=f"Epochs of an ensemble after that ({_PRETRAINED}).")
]
Size = Annotated[int | None, typer.Option(min=16, help=f"Size of the images in pixels ({_PRETRAINED}).")]
Networks = Annotated[str | None, typer.Option(help=f"Such as resnet18,mobilenet_v2 ({_PRETRAINED}).")]
Parts = Annotated[
    str | None,
    typer.Option(help=f"Jobs to run, by beginnings of names such as cifar10-w8 ({_PRETRAINED}, {_STUDIES})."),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help=f"Folder of NAME.safetensors; by default torchvision's download ({_PRETRAINED}, image-heads)."
    ),
]


def _complete_target(incomplete: str) -> list[tuple[str, str]]:
    return [(name, title) for name, title in _titles().items() if name.startswith(incomplete)]


@app.command()
def _reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Such as figure-3; docs writes the documents.",
            autocompletion=_complete_target,
        ),
    ] = None,
    out: Out = Path("out"),
    n_learners: Annotated[int | None, typer.Option(help="Number of learners (figure-3, figure-5).")] = None,
    # Repeats count upwards from it, and scikit-learn takes seeds up to 2**32 - 1.
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of every random draw.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of images or tables; by default COUNTERPOINT_DATA.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats of the cross-validation (table-3).")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Such as cpu or cuda; by default the GPU if there is one.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help=f"Number of seeds ({_PRETRAINED}, {_SEEDED}).")
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
    list_: Annotated[bool, typer.Option("--list", help="List the names and stop.")] = False,
) -> None:
    """Make a table or figure of the paper, or run a study; without a name, list them."""
    if name is None or list_:
        _list_targets()
        return
    if name == DOCS:
        _report(_titles()[DOCS], write_documents())
        return
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
    paths = reproduce(name, out, **{key: value for key, value in options.items() if value is not None})
    _report(TARGETS[name].title, paths)


def _report(title: str, paths: Sequence[Path]) -> None:
    typer.echo(title)
    for path in paths:
        typer.echo(f"  {path}")


def _titles() -> dict[str, str]:
    titles = {name: target.title for name, target in TARGETS.items()}
    return {**titles, DOCS: "The tables and figures of the documents, from the committed records"}


def _list_targets() -> None:
    titles = _titles()
    width = max(map(len, titles))
    for name, title in titles.items():
        typer.echo(f"{name:{width}}  {title}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 after an error, or 130 if interrupted."""
    return run_app(app, "python -m paper", arguments)


if __name__ == "__main__":
    raise SystemExit(main())
