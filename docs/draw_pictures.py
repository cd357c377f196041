"""Draw the pictures that no record holds, with ``python docs/draw_pictures.py``: two reports and the plane of the demo.

The code of a page makes the assessment that a report shows. Headless Chromium takes a screenshot of the report down to
the table of its learners. ``python -m paper docs`` draws all other pictures.
"""

import doctest
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from counterpoint.cli import main
from counterpoint.report import EnsembleReport

DOCS = Path(__file__).parent
REPORTS = {"report": ("panels.md", "assessment"), "report-regression": ("report.md", "five")}
PLANE = "tradeoff"
WIDTH = 1120


def made_by(page: str, name: str) -> Any:
    """Run the examples of a page, and return what the name holds when it is first made."""
    names: dict[str, Any] = {}
    found = None
    for example in doctest.DocTestParser().get_examples((DOCS / page).read_text(encoding="utf-8")):
        exec(example.source, names)
        found = names.get(name) if found is None else found
    if found is None:
        raise ValueError(f"`{name}` must be made by the code of docs/{page}.")
    return found


def take_screenshots(pages: dict[str, Path], folder: Path) -> list[Path]:
    """Write a screenshot of each page, down to its learners, to a folder; return the paths of the screenshots."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    paths = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, page in pages.items():
            view = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
            view.goto(page.resolve().as_uri())
            box = view.locator("section[aria-labelledby$='-learners']").bounding_box()
            assert box is not None
            path = folder / f"{name}.png"
            view.set_viewport_size({"width": WIDTH, "height": round(box["y"] + box["height"]) + 12})
            view.screenshot(path=path)
            Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes
            paths.append(path)
        browser.close()
    return paths


def draw(folder: Path = DOCS / "images") -> list[Path]:
    """Draw all of these pictures into a folder, and return their paths."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        pages = {
            name: EnsembleReport(made_by(*where)).write_html(out / f"{name}.html")
            for name, where in REPORTS.items()
        }
        paths = take_screenshots(pages, folder)
        main(["demo", "--out", str(out / "demo")])
        shutil.copy(out / "demo" / f"{PLANE}.png", folder / f"{PLANE}.png")
    return [*paths, folder / f"{PLANE}.png"]


if __name__ == "__main__":
    for path in draw():
        print(path)
