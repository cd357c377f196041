"""The page in headless Chromium: it runs clean, asks for nothing, and its panel agrees with the theory."""

import csv
import os
import shutil
from itertools import product

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.assessment import assess_regression
from counterpoint.report import EnsembleReport
from counterpoint.theory import jury_accuracy

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("needs Chromium on the path, or its place in $CHROMIUM", allow_module_level=True)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(five, soft, awkward, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return EnsembleReport([five, soft, awkward]).write_html(path).as_uri()


@pytest.fixture
def visit(browser, address):
    """Return a function that opens the page; what went wrong and what was asked for is kept on it."""
    contexts = []

    def open_page(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()


def move(page, name, value):
    page.eval_on_selector(
        f"#what-if-{name}",
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        str(value),
    )


def share(page, selector):
    return float(page.text_content(selector).removesuffix("%")) / 100


def test_the_page_runs_clean_and_asks_for_nothing(visit, address):
    page = visit()
    page.mouse.wheel(0, 5000)
    move(page, "n", 21)
    assert page.complaints == []
    assert page.asked == [address]
    assert page.locator("#what-if").is_visible()


def test_the_page_can_be_read_without_javascript(visit, five):
    page = visit(java_script_enabled=False)
    text = page.inner_text("main")
    assert "5 learners voted on 300 samples" in text
    assert not page.locator("#what-if").is_visible()
    assert "With JavaScript this page also has a panel" in text
    for table in page.locator("table").all():
        assert table.is_visible()
    # Where there is no script, the browser itself names what is pointed at.
    titles = page.locator("#e1 svg .mark title").all_text_contents()
    assert any(title.startswith("<script>alert(1)</script>: ") for title in titles)


def point_at(page, mark):
    """Move the mouse to a mark once the page has come to rest: scrolling hides what was named."""
    mark.scroll_into_view_if_needed()
    page.mouse.move(0, 0)
    for _ in range(10):
        page.wait_for_timeout(100)
        mark.hover()
        if page.locator("#tip").is_visible():
            return


def test_what_is_pointed_at_is_named(visit):
    page = visit()
    point_at(page, page.locator("#e1 svg circle.dot").first)
    tip = page.locator("#tip")
    sync_api.expect(tip).to_be_visible()
    names = ["logistic", "<script>alert(1)</script>", "naive | bayes", "k & n", "svm"]
    assert tip.text_content().split(":")[0] in names
    point_at(page, page.locator("#e1 svg .cell").nth(1))
    sync_api.expect(tip).to_contain_text("truth \N{MULTIPLICATION SIGN} ")
    page.locator("h1").hover()
    sync_api.expect(tip).to_be_hidden()


def test_marks_can_be_reached_from_the_keyboard(visit):
    page = visit()
    page.locator("#e1 svg.grid-of-cells").focus()
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("#tip")).to_contain_text("truth: 1.00")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    named = page.text_content("#tip").split(":")[0]
    page.keyboard.press("ArrowRight")
    assert page.text_content("#tip").split(":")[0].startswith(f"{named} \N{MULTIPLICATION SIGN} ")
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#tip")).to_be_hidden()


def test_the_panel_starts_from_the_ensemble(visit, five, soft):
    page = visit()
    assert page.text_content("#what-if-n-out") == "5"
    page.select_option("#what-if-start", "1")
    assert page.text_content("#what-if-n-out") == "11"
    assert share(page, "#what-if-p-out") == pytest.approx(soft.accuracies.mean(), abs=1e-3)
    start = soft.accuracies.mean(), soft.correlations.error_correlation
    assert share(page, "#what-if-vote") == pytest.approx(jury_accuracy(*start, 11), abs=2e-3)
    move(page, "p", 0.9)
    page.click("#what-if-reset")
    assert share(page, "#what-if-p-out") == pytest.approx(soft.accuracies.mean(), abs=1e-3)


def test_the_panel_says_that_it_knows_no_opposed_learners(visit, awkward):
    assert awkward.correlations.error_correlation < 0
    page = visit()
    page.select_option("#what-if-start", "2")
    assert page.text_content("#what-if-c-out") == "0.000"
    assert "negative" in page.text_content("#what-if-note")


def test_the_panel_agrees_with_the_theory(visit):
    page = visit()
    before = page.get_attribute("#what-if-curve", "d")
    grid = list(
        product([1, 2, 5, 12, 101, 301], [0.05, 0.3, 0.5, 0.62, 0.9, 0.995], [0, 0.002, 0.05, 0.3, 0.8, 1])
    )
    said = page.evaluate(
        """grid => grid.map(values => {
            ["n", "p", "c"].forEach((name, k) => {
                const slider = document.getElementById("what-if-" + name);
                slider.value = values[k];
                if (k === 2) slider.dispatchEvent(new Event("input"));
            });
            return parseFloat(document.getElementById("what-if-vote").textContent) / 100;
        })""",
        grid,
    )
    n, p, c = np.array(grid).T
    np.testing.assert_allclose(said, jury_accuracy(p, c, n.astype(int)), atol=3e-4)
    assert page.get_attribute("#what-if-curve", "d") != before


def test_the_curve_passes_through_the_vote(visit):
    page = visit()
    move(page, "p", 0.7)
    move(page, "c", 0.1)
    last = page.get_attribute("#what-if-curve", "d").split("L")[-1].split()
    move(page, "n", 301)
    assert float(page.get_attribute("#what-if-now", "cx")) == pytest.approx(float(last[0]), abs=0.2)
    assert float(page.get_attribute("#what-if-now", "cy")) == pytest.approx(float(last[1]), abs=0.2)


def test_learners_can_be_sorted(visit, five):
    page = visit()
    table = page.locator("#e1 table.learners")
    table.get_by_role("button", name="Right on").click()
    assert table.locator("tbody th").first.text_content() == five.learners[five.accuracies.argmax()]
    assert table.locator("[aria-sort=descending]").count() == 1
    table.get_by_role("button", name="Right on").click()
    assert table.locator("tbody th").first.text_content() == five.learners[five.accuracies.argmin()]


def test_the_page_follows_the_colour_scheme_and_prints_on_white(visit):
    background = "getComputedStyle(document.body).backgroundColor"
    page = visit(color_scheme="light")
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) != light == "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert page.evaluate(background) == light


@pytest.mark.parametrize("width", [360, 390, 1200])
def test_nothing_hangs_over_the_edge(visit, width):
    page = visit(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Nor is a table of learners cut: its last column is the first to go.
    for table in page.locator("table.learners").all():
        assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")


@pytest.mark.parametrize("width", [360, 1200])
def test_pages_without_votes_run_clean_and_fit(browser, tmp_path, width):
    rng = np.random.default_rng(0)
    truth = 1000 * rng.normal(50, 10, 100)
    names = ["w" * 60, "<b>", *(f"tree {i}" for i in range(5))]
    numbers = assess_regression(
        truth, truth + 3000 * rng.normal(size=(7, 100)), learners=names, name="Prices"
    )
    panel = assess(rng.integers(0, 3, (7, 100)), learners=names, name="Panel")
    context = browser.new_context(viewport={"width": width, "height": 800})
    for assessment in (numbers, panel):
        address = EnsembleReport(assessment).write_html(tmp_path / "page.html").as_uri()
        page = context.new_page()
        complaints, asked = [], []
        page.on("console", lambda message, to=complaints: to.append(message.text))
        page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        page.on("request", lambda request, to=asked: to.append(request.url))
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for table in page.locator("table.learners").all():
            assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")
        # The script ran to its end: it keeps the titles of marks for its tooltips, and sorts tables.
        assert page.locator("svg.hover .mark[data-tip]").count() > 0
        assert page.locator("table.sortable button").count() == (5 if assessment is numbers else 0)
        assert (complaints, asked) == ([], [address])
    context.close()


MARKUP = [
    "<img src=x onerror=owned=1>",
    "<script>owned=1</script>",
    "\"' onmouseover='owned=1' x=\"",
    "</title></style></svg><svg onload=owned=1>",
    "javascript:owned=1",
    "{{ 7*7 }}${owned=1}",
]


def test_markup_of_a_file_is_shown_and_never_run(browser, tmp_path, capsys, monkeypatch):
    from counterpoint.cli import main

    rng = np.random.default_rng(0)
    labels = [MARKUP[0], MARKUP[1].replace(",", ";")]
    truth = rng.integers(0, 2, 60)
    votes = np.where(rng.random((len(MARKUP), 60)) < 0.8, truth, 1 - truth)
    rows = [
        ["truth", *MARKUP],
        *([labels[t], *(labels[v] for v in votes[:, i])] for i, t in enumerate(truth)),
    ]
    monkeypatch.chdir(tmp_path)
    name = f"{MARKUP[0]}{MARKUP[2]}.tsv"
    with open(name, "w", newline="") as file:  # noqa: PTH123
        csv.writer(file, delimiter="\t").writerows(rows)
    # The names with a colon would be read as probabilities of a class.
    drop = [argument for markup in MARKUP if ":" in markup for argument in ("--drop", markup)]
    assert main(["assess", name, "--truth", "truth", *drop, "--html", "page.html"]) == 0, (
        capsys.readouterr().err
    )
    assessment = assess(truth, votes, learners=MARKUP, name=MARKUP[3])
    EnsembleReport([assessment, assessment], title=MARKUP[3]).write_html("titled.html")
    context = browser.new_context()
    for file in ("page.html", "titled.html"):
        page = context.new_page()
        complaints, asked = [], []
        page.on("console", lambda message, to=complaints: to.append(message.text))
        page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        page.on("request", lambda request, to=asked: to.append(request.url))
        page.goto((tmp_path / file).as_uri())
        page.mouse.wheel(0, 3000)
        for mark in page.locator("main [tabindex], main td").all()[:10]:
            mark.dispatch_event("mouseover")
        assert page.evaluate("typeof owned") == "undefined"
        assert complaints == []
        assert len(asked) == 1
        assert MARKUP[1] in page.inner_text("main")
    context.close()


PLACES = """
() => {
  const found = [];
  for (const element of document.querySelectorAll("td.taken")) {
    const word = element.querySelector("bdi");
    const rest = word && word.nextSibling;
    const digit = rest && rest.nodeType === 3 ? rest.textContent.search(/[0-9]/) : -1;
    if (digit < 0) continue;
    const range = document.createRange();
    range.setStart(rest, digit);
    range.setEnd(rest, digit + 1);
    const [before, after] = [word.getClientRects(), range.getClientRects()];
    if (before.length === 1 && before[0].top === after[0].top) found.push(after[0].left - before[0].right);
  }
  return found;
}
"""


def test_numbers_stand_after_words_from_right_to_left_and_no_mark_turns_a_line(browser, tmp_path):
    rng = np.random.default_rng(0)
    truth = np.array(["כן", "לא\u202e"])[rng.integers(0, 2, 200)]
    votes = [np.where(rng.random(200) < share, truth, truth[::-1]) for share in (0.9, 0.6, 0.6)]
    report = EnsembleReport(assess(truth, votes, learners=["אחת", "\u2067גדה", "b\u202e"], name="פאנל"))
    page = browser.new_page(viewport={"width": 2400, "height": 900})
    page.goto(report.write_html(tmp_path / "page.html").as_uri())
    shown = page.locator("body").inner_text() + page.title()
    assert not set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(shown)
    gaps = page.evaluate(PLACES)
    assert gaps
    assert min(gaps) >= 0  # the digit stands on the right of the word, as it follows it
