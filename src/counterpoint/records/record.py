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
    png, svg = write_png(figure, out / f"{name}.png"), out / f"{name}.svg"
    with house_style(), replacing(svg) as file:
        figure.savefig(file, format="svg", metadata={"Creator": None, "Date": None})
    return [png, svg]


def write_png(figure: "Figure", path: Path) -> Path:
    """Write a figure as PNG, byte for byte the same each time."""
    with house_style(), replacing(path) as file:
        figure.savefig(file, format="png", metadata={"Software": None})
    return path


def write_record(
    out: Path, name: str, *, title: str, config: Mapping[str, Any], data: Any, **more: Any
) -> list[Path]:
    """Write numbers as JSON, with what they were made from and with; ``more`` may be device and seconds."""
    path = out / f"{name}.json"
    record = {"name": name, "title": title, "config": config, "versions": versions(), **more, "data": data}
    write_json(path, record)
    return [path]


def write_json(path: Path, value: Any) -> None:
    """Write plain values as JSON."""
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text; the file is whole or not there, so that it may be written after every run."""
    with replacing(path) as file:
        file.write(text.encode())


def read_record(path: Path, *needed: str) -> dict[str, Any]:
    """Return what was written as JSON, or name the file that was damaged since, or that lacks what is needed."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no text at all
        raise ValueError(f"'{path}' must hold JSON; reading it failed: {error}.") from error
    if not isinstance(record, dict) or not record.keys() >= set(needed):
        raise ValueError(f"'{path}' must hold a record with {' and '.join(needed)}; it holds other JSON.")
    return record


def read_part(path: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a part of a study that was written before, if there is one of the same settings."""
    part = read_record(path) if path.is_file() else None
    return part if part is not None and part["config"] == plain(config) else None


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    found = {name: version(name) for name in _LIBRARIES}
    return {"counterpoint": counterpoint.__version__, "python": platform.python_version(), **found}
