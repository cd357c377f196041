"""The docs show every public name and every page, and the examples of the gallery run. None of it needs Sphinx."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from counterpoint import EnsembleReport, read_predictions
from tests.test_public_names import NAMES

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", sorted((ROOT / "examples").glob("plot_*.py"))
SLOW = {"plot_decorate", "plot_dial", "plot_does_diversity_pay", "plot_regression_ambiguity"}  # seconds each


@pytest.fixture(scope="module")
def api():
    return runpy.run_path(str(DOCS / "api_pages.py"))


def test_every_public_name_has_a_page_and_a_line_on_the_page_of_its_package(api):
    pages, homes = api["pages"](), api["homes"](api["public_names"]())
    modules = {name for _, name in NAMES if f"counterpoint.{name}.rst" in pages}
    names = {f"{module}.{name}" for module, name in NAMES if module != "counterpoint" or name not in modules}
    assert set(homes) == names
    for dotted, home in homes.items():
        package, _, name = dotted.rpartition(".")
        file = next(
            file for file in pages if re.fullmatch(rf"{re.escape(home)}-(class|data|function)\.rst", file)
        )
        assert f":doc:`{name} <{file.removesuffix('.rst')}>`" in pages[f"{package}.rst"]
        assert re.search(rf"^\.\. (autoclass|autofunction|py:data):: {name}$", pages[file], re.MULTILINE)


def test_pages_differ_where_file_names_ignore_case(api):
    files = [file.lower() for file in api["pages"]()]
    assert len(set(files)) == len(files)


def test_pages_of_names_that_are_gone_are_removed(api, tmp_path):
    (tmp_path / "counterpoint.gone-class.rst").write_text("gone")
    api["write_pages"](tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(api["pages"]())


def test_every_page_is_in_the_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^(?:.* <)?([\w/-]+)>?$",
        "\n".join(re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)),
        re.MULTILINE,
    )
    assert {path.stem for path in DOCS.glob("*.md")} - {"index"} <= set(listed)


def test_links_between_pages_lead_to_files_and_headings():
    for page in sorted(DOCS.glob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
            goal = (DOCS / target) if target else page
            assert goal.is_file(), f"{page.name} links to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", goal.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"{page.name} links to {target}#{anchor}"


def test_every_picture_is_a_file_and_every_file_is_shown():
    shown = set()
    for page in (*DOCS.glob("*.md"), ROOT / "README.md"):
        shown |= set(re.findall(r"images/([\w-]+\.png)", page.read_text(encoding="utf-8")))
    assert shown == {path.name for path in (DOCS / "images").iterdir()}


def test_the_code_of_the_pages_makes_the_reports_in_the_pictures():
    drawing = runpy.run_path(str(DOCS / "draw_pictures.py"))
    for name, where in drawing["REPORTS"].items():
        assert (DOCS / "images" / f"{name}.png").is_file()
        assert "-learners" in EnsembleReport(drawing["made_by"](*where)).html()
    with pytest.raises(ValueError, match="must be made by the code of"):
        drawing["made_by"]("report.md", "nobody")


def test_there_are_enough_examples_and_each_has_a_title_and_a_picture():
    assert len(EXAMPLES) >= 8
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        title, line = text.splitlines()[1:3]
        assert set(line) == {"="}
        assert len(line) == len(title)
        assert "plt.show()" in text
        assert not re.search(r"counterpoint\.\w*\._|import _", text), "examples use public names only"


def marked(path):
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])


@pytest.mark.parametrize("path", [marked(path) for path in EXAMPLES])
def test_an_example_runs_and_draws(path, monkeypatch):
    plt.switch_backend("Agg")  # which also closes all figures
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(path))
    figures = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    assert figures
    for figure in figures:
        figure.canvas.draw()


RUN_BY_TESTS = {  # pages with code that doctest does not run, and the tests that run it
    "command-line.md": ["test_cli_assess.py", "test_cli_fit.py", "test_docs.py"],
    "datasets.md": ["test_docs.py"],
    "scale.md": ["training/test_other_loops.py", "training/test_scale_page.py"],
    "vision.md": ["vision/test_example.py"],
}


def test_every_block_of_python_is_run():
    for page in (*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        if not all(block.startswith(">>> ") for block in blocks):
            assert page.name in RUN_BY_TESTS, f"{page.name} has code that nothing runs"
            for test in RUN_BY_TESTS[page.name]:
                assert page.name in (ROOT / "tests" / test).read_text(encoding="utf-8")


def block_with(page, words):
    found = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in found if words in block)
    return block


def test_the_code_that_loads_images_loads_those_of_a_folder(tmp_path, monkeypatch):
    labels = np.arange(20) % 10
    parts = {"x_train": np.zeros((20, 32, 32, 3), np.uint8), "y_train": labels}
    np.savez(tmp_path / "cifar10.npz", **parts, x_test=parts["x_train"], y_test=labels)
    monkeypatch.setenv("COUNTERPOINT_DATA", str(tmp_path))
    names = {}
    exec(block_with("datasets.md", "load_cifar10"), names)
    assert names["images"].x_train.shape == (4, 32, 32, 3)


def test_the_code_that_saves_arrays_saves_what_assess_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = load_iris(return_X_y=True)
    models = [DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y) for depth in (1, 2)]
    exec(block_with("command-line.md", "np.savez"), {"np": np, "X": X, "y": y, "models": models})
    read = read_predictions("predictions.npz", "y_true")
    assert read.outputs.shape == (2, 150, 3)
    assert (read.y_true == y).all()
