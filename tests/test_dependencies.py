"""The lowest versions that are tested are those that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UNTESTED = {"arena", "dev", "docs", "mlflow"}  # methods to compare with, tools, and one that tests skip
# Older ones have no wheel without CUDA; the records of `results` from a GPU were made with these.
ON_THE_GPU = {"torch": "2.11", "torchvision": "0.26"}


def versions(lines, sign):
    """Return the version of each package, without zeros at its end."""
    found = (re.fullmatch(rf"([\w-]+){sign}([\d.]+)", line) for line in lines)
    return {match[1]: re.sub(r"(\.0)+$", "", match[2]) for match in found if match}


def test_the_lowest_versions_are_those_of_pyproject():
    extras = PROJECT["optional-dependencies"]
    allowed = [*PROJECT["dependencies"]] + [
        line for name, lines in extras.items() if name not in UNTESTED for line in lines
    ]
    pinned = (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    frames = [line for line in extras["dev"] if line.startswith("polars")]  # that users bring with them
    lowest = versions([*allowed, *frames], ">=")
    assert ON_THE_GPU.items() <= lowest.items()
    assert {"torch": "2.13", "torchvision": "0.28"}.items() <= versions(pinned, "==").items()
    assert versions(pinned, "==") | ON_THE_GPU == lowest


def test_the_workflow_runs_every_python_that_the_classifiers_name():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[.*\]", workflow)[0]) == named
