"""Results and progress bars in a notebook."""

import re
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console
from rich.progress import BarColumn, TextColumn

from counterpoint import EnsembleReport, assess, select
from counterpoint._notebook import html_block, html_table, progress_bar, svg_curves
from counterpoint.assessment import assess_regression, assess_scores, compare_votes

TRUTH = np.arange(120) % 3
RNG = np.random.default_rng(0)
NAMES = ("one", "<script>alert(1)</script>", "three & four")
VOTES = {name: np.where(RNG.random(120) < 0.7, TRUTH, RNG.integers(0, 3, 120)) for name in NAMES}
NUMBERS = {name: TRUTH + RNG.normal(size=120) for name in NAMES}


def history():
    torch_history = pytest.importorskip("counterpoint.training").History
    epochs = [
        {"epoch": i, "loss": 1 / i, "vote_accuracy": 1 - 0.5 / i, "val_vote_accuracy": 0.4 + 0.1 * i}
        for i in (1, 2, 3)
    ]
    return torch_history(epochs, best_epoch=2)


SHOWN = {
    "assessment": lambda: assess(TRUTH, VOTES, name="<b>"),
    "without a truth": lambda: assess(VOTES),
    "regression": lambda: assess_regression(TRUTH, list(NUMBERS.values()), learners=NAMES),
    "scores": lambda: assess_scores(NUMBERS),
    "selection": lambda: select(TRUTH, VOTES, size=2),
    "comparison": lambda: compare_votes(TRUTH, {"<i>all</i>": VOTES, "first": {"one": VOTES["one"]}}),
    "history": history,
    "report": lambda: EnsembleReport(assess(TRUTH, VOTES)),
}


TEXT = {"div", "h4", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "figcaption"}
HARMLESS = TEXT | {"figure", "svg", "polyline", "circle", "line", "iframe"}


class Elements(HTMLParser):
    """The elements of a page; each must be closed in its turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", SHOWN)
def test_a_result_shows_itself_with_its_texts_escaped(kind):
    text = SHOWN[kind]()._repr_html_()
    seen = set(Elements(text).seen)
    assert seen <= HARMLESS
    assert kind == "report" or "table" in seen


@pytest.mark.parametrize("kind", [kind for kind in SHOWN if kind != "report"])  # which is a page of its own
def test_colours_are_those_of_the_notebook(kind):
    assert not re.search(r"#[0-9a-f]{3}|rgb|color:|background", SHOWN[kind]()._repr_html_())


def test_an_assessment_has_its_learners_in_a_table():
    text = SHOWN["assessment"]()._repr_html_()
    assert text.count("<table>") == 2
    assert '<th style="text-align: left">&lt;script&gt;alert(1)&lt;/script&gt;</th>' in text
    assert "<h4>&lt;b&gt;</h4>" in text


def test_a_selection_shows_what_it_prints():
    selection = SHOWN["selection"]()
    text = selection._repr_html_()
    for name, weight in zip(selection.chosen, selection.weights, strict=True):
        assert f"{weight:.4f}" in text
        assert name in str(selection)
    assert selection.summary()[1] in text


def test_a_comparison_shows_accuracies_and_sentences():
    comparison = SHOWN["comparison"]()
    text = comparison._repr_html_()
    assert "<h4>2 votes on 120 samples</h4>" in text
    assert f'<td style="text-align: left">{comparison.accuracies["first"]}</td>' in text
    assert "&lt;i&gt;all&lt;/i&gt;" in text


def test_a_history_has_curves_and_the_first_the_best_and_the_last_epoch():
    text = history()._repr_html_()
    assert text.count("<svg") == 2
    assert text.count("stroke-dasharray") == 1  # the validation, of the accuracy alone
    assert [f"epoch {n}" in text for n in (1, 2, 3)] == [True] * 3
    assert '<td style="text-align: left">0.3333</td>' in text
    empty = type(history())()
    assert empty._repr_html_() == "<div><h4>0 epochs</h4></div>"


def test_a_history_shows_values_that_are_no_numbers():
    kind = type(history())
    assert ">good</td>" in kind([{"epoch": 1, "loss": "good"}])._repr_html_()


def test_curves_span_the_picture_and_break_where_undefined():
    text = svg_curves("loss", {"training": [1.0, 0.0, np.nan, 0.5]}, mark=2)
    assert '<polyline points="4.0,4.0 88.0,106.0"/>' in text  # the highest on top
    assert '<circle cx="256.0" cy="55.0"' in text
    assert '<line x1="88.0" x2="88.0"' in text
    assert svg_curves("loss", {"training": [np.nan]}) == ""
    assert 'cx="130.0" cy="55.0"' in svg_curves("loss", {"training": [0.3]})


def test_what_is_empty_leaves_nothing():
    assert html_table([]) == ""
    assert html_block("name", "") == "<div><h4>name</h4></div>"


def test_a_bar_in_a_notebook_is_one_line_that_is_rewritten(monkeypatch):
    written = []

    class Handle:
        def update(self, data, raw):
            written.append(data["text/plain"])

    def display(data, raw, display_id):
        assert raw
        assert display_id
        Handle().update(data, raw)
        return Handle()

    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    console = Console(force_jupyter=True, stderr=True)
    with progress_bar(TextColumn("{task.description}"), BarColumn(), console=console) as bar:
        task = bar.add_task("jobs", total=2)
        bar.update(task, completed=1)
    assert all(line.startswith("jobs") for line in written[1:])
    with progress_bar(TextColumn("gone"), console=console, transient=True) as bar:
        bar.add_task("", total=1)
    assert written[-2:] == ["gone", ""]


def test_a_fitted_search_shows_itself_as_scikit_learn_does():
    pytest.importorskip("torch")
    from counterpoint.estimators import DiverseEnsembleClassifierCV

    X = RNG.normal(size=(60, 2))
    search = DiverseEnsembleClassifierCV(n_estimators=2, cv=2, epochs=(1, 2), random_state=0)
    text = search.fit(X, X[:, 0] > 0)._repr_html_()
    assert "DiverseEnsembleClassifierCV" in text
    assert "Fitted" in text


CELLS = [
    "import numpy as np, torch\n"
    "from counterpoint import Ensemble, EnsembleReport, JointLoss, assess, fit, select\n"
    "from counterpoint.assessment import compare_votes\n"
    "from counterpoint.training import mlp\n"
    "truth = np.arange(90) % 2\n"
    "votes = np.where(np.random.default_rng(0).random((3, 90)) < 0.7, truth, 1 - truth)\n"
    "assess(truth, votes)",
    "EnsembleReport(assess(truth, votes))",
    "select(truth, votes)",
    "compare_votes(truth, {'all': votes, 'two': votes[:2]})",
    "batch = torch.randn(90, 2), torch.as_tensor(truth)\n"
    "fit(Ensemble([mlp([2, 4, 2]) for _ in range(3)]), [batch], loss=JointLoss(), epochs=3,\n"
    "    optimizer=torch.optim.AdamW)",
    "assess(truth, votes, progress=True).verdict",
]


def test_objects_and_bars_in_a_notebook_that_runs():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    *shown, trained, assessed = [cell.outputs for cell in book.cells]
    for outputs in (*shown, trained):
        assert "text/html" in outputs[-1].data
    assert all(output.output_type != "stream" for outputs in (*shown, trained) for output in outputs)
    bar, result = trained
    assert bar.data["text/plain"].startswith("epoch 3/3")
    assert "<svg" in result.data["text/html"]
    assert [output.output_type for output in assessed] == ["display_data", "execute_result"]
    assert assessed[0].data["text/plain"] == ""  # the bar is gone when it is done
