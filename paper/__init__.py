"""The paper's tables and figures, and our own studies: each target computes its numbers, draws them and writes both.

A target is one line in ``TARGETS``. Its function takes the folder to write to and the options that it has, by keyword;
it returns the paths it wrote. Modules are imported when their target runs. A target without ``smoke`` takes seconds.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["TARGETS", "Target", "reproduce"]


class Target(NamedTuple):
    """The function of a target, and its title."""

    module: str
    function: str
    title: str


TARGETS: Mapping[str, Target] = {
    "figure-1": Target("figure_1", "reproduce", "The correlation matrix of the truth and learners"),
    "figure-2": Target("figure_2", "reproduce", "Not every matrix of correlations is possible"),
    "figure-3": Target("figure_3", "reproduce", "Accuracy against diversity, and their bound"),
    "figure-4": Target("figure_4", "reproduce", "A learner's accuracy against its correlation"),
    "figure-5": Target("figure_5", "reproduce", "Vote accuracy: as printed, corrected, simulated"),
    "table-1": Target("table_1", "reproduce", "Random forests against the bound, as a table"),
    "figure-6": Target("figure_6", "reproduce", "Random forests against the bound, on the plane"),
    "table-2": Target("table_2", "reproduce", "The data sets without images"),
    "table-3": Target("table_3", "reproduce", "DECORATE, the paper's loss and independent nets on tables"),
    "figure-7": Target("figure_7", "reproduce", "Two ways of training, on the plane"),
    "table-4": Target("pretrained.study", "table_4", "Pretrained networks: airplanes and automobiles"),
    "table-5": Target("pretrained.study", "table_5", "Pretrained networks: CIFAR-10"),
    "table-6": Target("pretrained.study", "table_6", "EfficientNets, copied and apart: CIFAR-10"),
    "table-5-short": Target("pretrained.study", "table_5_short", "As table-5, with fewer epochs"),
    "table-6-short": Target("pretrained.study", "table_6_short", "As table-6, with fewer epochs"),
    "table-6-cifar100": Target("pretrained.study", "table_6_cifar100", "EfficientNets: CIFAR-100"),
    "diversity-map": Target("diversity_map.study", "reproduce", "When explicit diversity pays, on tables"),
    "diversity-map-one-unit": Target(
        "diversity_map.one_unit", "reproduce", "One hidden unit: the read-out, and more steps"
    ),
    "panels": Target("panels", "reproduce", "Votes of judges, networks and forests, predicted and observed"),
    "image-dial": Target("convnets.dial", "reproduce", "The dial of diversity on images"),
    "image-rates": Target("convnets.rates", "reproduce", "Learning rates of the image study"),
    "image-heads": Target("heads.study", "reproduce", "Heads on one trunk, by diversity"),
    "image-scratch": Target("convnets.scratch", "reproduce", "Ensembles from scratch: error against seconds"),
}


# Optional packages that targets import, and the extras that install them.
_EXTRAS = {
    "safetensors": "train",
    "torch": "train",
    "torchvision": "vision",
}


def reproduce(name: str, out: Path, **options: Any) -> list[Path]:
    """Run one target and return the paths it wrote.

    Parameters
    ----------
    name : str
        A key of ``TARGETS``.
    out : Path
        Folder to write to; created if it does not exist.
    **options
        Options of that target, such as ``n_learners`` or ``seed``; every target takes ``smoke``.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    ValueError
        If there is no such target, or it does not have an option.
    ImportError
        If a package is missing; the message has the line that installs it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in reproduce("figure-3", Path(folder), n_learners=7)]
    ['figure-3.png', 'figure-3.svg', 'figure-3.json']
    """
    if name not in TARGETS:
        hint = "".join(f" Did you mean {match}?" for match in get_close_matches(name, TARGETS, n=1))
        raise ValueError(f"`NAME` must be one of {', '.join(TARGETS)}; got {name!r}.{hint}")
    try:
        return _run(name, out, options)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        line = f'pip install "counterpoint[{_EXTRAS[package]}]"'
        raise ImportError(f"`{package}` is needed here; install it with: {line}.") from error


def _run(name: str, out: Path, options: dict[str, Any]) -> list[Path]:
    target = TARGETS[name]
    function = getattr(import_module(f"{__name__}.{target.module}"), target.function)
    known = signature(function).parameters
    if "smoke" not in known:
        options.pop("smoke", None)
    for option in options:
        if option not in known:
            raise ValueError(f"`--{option.replace('_', '-')}` has no meaning for {name}.")
    paths: list[Path] = function(out, **options)
    return paths
