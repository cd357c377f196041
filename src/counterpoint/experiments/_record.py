"""What an experiment leaves behind: pictures, and the numbers in them."""

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import counterpoint
from counterpoint._files import replacing
from counterpoint._plain import plain
from counterpoint.plots import house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LIBRARIES = ("matplotlib", "numpy", "scikit-learn", "scipy")


def write_figure(figure: "Figure", out: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, byte for byte the same each time."""
    out.mkdir(parents=True, exist_ok=True)
    png, svg = out / f"{name}.png", out / f"{name}.svg"
    with house_style():
        figure.savefig(png, metadata={"Software": None})
        figure.savefig(svg, metadata={"Creator": None, "Date": None})
    return [png, svg]


def write_record(
    out: Path, name: str, *, title: str, config: Mapping[str, Any], data: Any, **more: Any
) -> list[Path]:
    """Write numbers as JSON, with what they were made from and with; ``more`` may be device and seconds.

    The file is whole or not there, so that a study may write its record after every run.
    """
    path = out / f"{name}.json"
    record = {
        "name": name,
        "title": title,
        "config": plain(config),
        "versions": versions(),
        **plain(more),
        "data": plain(data),
    }
    with replacing(path) as file:
        file.write((json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    return [path]


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    found = {name: version(name) for name in _LIBRARIES}
    return {"counterpoint": counterpoint.__version__, "python": platform.python_version(), **found}
