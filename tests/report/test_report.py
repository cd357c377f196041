"""What the report says, in each of its forms."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from datetime import date
from html import escape

import numpy as np
import pytest

from counterpoint import __version__
from counterpoint.assessment import Assessment, assess, compare_votes
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import MEASURES
from counterpoint.report import EnsembleReport
from counterpoint.report._lead import _filled, effective_figure, lead
from counterpoint.report._matrix import _STRONG
from counterpoint.report._rendering import resource
from counterpoint.report._words import EXPLANATIONS, interval, number, percent, points, shorten
from tests.report.parsing import Page


def test_every_kind_of_ensemble_makes_a_well_formed_page(any_assessment):
    page = Page(EnsembleReport(any_assessment).html())
    assert [e["text"] for e in page.all("title") if e["within"] == ["html", "head"]] == [any_assessment.name]
    assert page.all("html")[0]["lang"] == "en"
    assert (
        f"right on {percent(any_assessment.vote.value)} of them".replace(" %", "\N{NO-BREAK SPACE}%")
        in page.all("main")[0]["text"]
    )
    assert "nan" not in re.findall(r"\w+", page.all("main")[0]["text"].lower())


def test_headings_go_down_one_level_at_a_time(any_assessment, soft):
    for given in (any_assessment, [any_assessment, soft]):
        levels = [
            int(e["tag"][1])
            for e in Page(EnsembleReport(given).html()).elements
            if e["tag"] in ("h1", "h2", "h3")
        ]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert max(np.diff(levels)) == 1


def test_sections_stand_in_reading_order(soft):
    page = Page(EnsembleReport(soft).html())
    assert [e["text"] for e in page.all("h2")] == [
        "In short",
        "Advice",
        "Learners",
        "The vote",
        "More or fewer learners",
        "Probabilities",
        "Accuracy against diversity",
        "Correlations",
        "Measures of diversity",
        "What if?",
        "Provenance",
    ]


def test_tables_and_figures_say_what_they_are(any_assessment):
    page = Page(EnsembleReport(any_assessment).html())
    assert all(e.get("scope") in ("row", "col") for e in page.all("th"))
    assert all(
        e.get("role") == "img" and e.get("aria-label")
        for e in page.all("svg")
        if e.get("aria-hidden") != "true"
    )
    ids = [e["id"] for e in page.elements if "id" in e]
    assert len(ids) == len(set(ids))
    assert {e["aria-labelledby"] for e in page.elements if "aria-labelledby" in e} <= set(ids)
    assert {e["for"] for e in page.all("label") if "for" in e} <= set(ids)


def test_names_are_escaped_everywhere(five):
    html = EnsembleReport([five, five]).html()
    page = Page(html)
    assert "<script>alert" not in html
    assert "<i>bad</i>" not in html
    assert len(page.all("script")) == 2
    assert "<script>alert(1)</script>" in page.all("main")[0]["text"]
    assert 'the "good" ones' in page.all("main")[0]["text"]
    starts = json.loads(page.all("script")[0]["text"])["starts"]
    assert [start["name"] for start in starts] == ["Five </script> models", "Five </script> models (2)"]


def test_the_page_asks_for_nothing(soft):
    html = EnsembleReport(soft).html()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", html)
    assert "url(" not in html
    assert "default-src 'none'" in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_a_page_stays_under_a_megabyte(thousand, soft, awkward):
    many = [replace(a, name=f"{a.name} {i}") for i in range(12) for a in (soft, awkward)]
    assert len(EnsembleReport(thousand).html().encode()) < 500_000
    html = EnsembleReport([thousand, *many]).html()
    assert len(html.encode()) < 1_000_000
    assert "The 10 ensembles with the most accurate votes follow in detail" in html


@pytest.mark.parametrize("letters", ["漢字", "д", "\"<&'"])
def test_long_names_in_any_script_leave_a_page_under_a_megabyte(soft, letters):
    long = 150 * letters
    named = replace(
        soft,
        learners=tuple(f"{long}{i}" for i in range(soft.n_learners)),
        classes=np.array([f"{long}{i}" for i in range(soft.n_classes)]),
        findings=tuple(replace(finding, text=f"{long}: {finding.text}") for finding in soft.findings),
    )
    way = np.linspace(0, 0.9, 5000)
    many = [replace(named, name=f"{long}{i}") for i in range(12)]
    report = EnsembleReport(many, trajectories={a.name: (way, way) for a in many})
    assert len(report.html().encode()) < 1_000_000
    assert json.loads(report.to_json())["assessments"][0]["learners"][0] == f"{long}0"


def test_the_ensembles_of_a_long_comparison_that_are_left_out_are_counted(lonely):
    many = [replace(lonely, name=f"one {i}") for i in range(400)]
    report = EnsembleReport(many)
    html = report.html()
    assert len(html.encode()) < 1_000_000
    said = "These are the 100 of 400 ensembles with the most accurate votes; the JSON holds all."
    assert said in html
    assert said in report.markdown()
    assert len(json.loads(Page(html).all("script")[0]["text"])["starts"]) == 100
    assert len(json.loads(report.to_json())["assessments"]) == 400


def test_many_learners_are_summed_up(thousand):
    page = Page(EnsembleReport(thousand).html())
    text = page.all("main")[0]["text"]
    assert re.search(r"\d\d of 1000 learners: the most and the least accurate", text)
    best = thousand.learners[int(np.argmax(thousand.accuracies))]
    assert best in [e["text"] for e in page.all("th")]
    assert len([e for e in page.all("rect") if "cell" in e.get("class", "")]) == 41 * 41


def test_groups_of_learners_show_the_mean_of_their_pairs(thousand):
    from counterpoint.plots.correlation import clustered_correlations
    from counterpoint.report._matrix import matrix_figure

    figure = matrix_figure(thousand, 40)
    found = thousand.correlations
    matrix, _ = clustered_correlations(found.r_tl_learners, found.matrix, thousand.learners)
    first = matrix[1:26, 1:26]
    own = first[~np.eye(25, dtype=bool)].mean()
    assert figure["grouped"]
    assert figure["cells"][42]["title"].endswith(f": {number(own, 2)}")
    assert figure["cells"][1]["title"].endswith(f": {number(matrix[0, 1:26].mean(), 2)}")


def test_the_plane_shows_the_ensemble_as_the_centre_of_its_learners(soft):
    from counterpoint.report._figures import plane_figure

    plane = plane_figure([soft], {}, 120)
    (mark,) = plane["marks"]
    assert len(plane["dots"]) == 11
    assert np.mean([d["x"] for d in plane["dots"]]) == pytest.approx(mark["x"], abs=0.1)
    assert np.mean([d["y"] for d in plane["dots"]]) == pytest.approx(mark["y"], abs=0.1)
    assert plane["gap"]["to"] < plane["gap"]["from"] == mark["y"]


def test_the_plane_of_a_comparison_has_a_bound_for_each_number_of_learners(five, soft, lonely):
    from counterpoint.report._figures import plane_figure

    plane = plane_figure([five, soft, lonely], {})
    assert [curve["label"] for curve in plane["curves"]] == ["N = 5", "N = 11"]
    assert [mark["series"] for mark in plane["marks"]] == [0, 1]
    assert not plane["dots"]


def said(assessment):
    """Return the first lines of a page as text."""
    return [
        "".join(text for text, _ in sentence).replace("\N{NO-BREAK SPACE}", " ")
        for sentence in lead(assessment)
    ]


def panel(n_learners, shared, n_samples=600, seed=0):
    """Return learners that are right on about 70 % and share a part of what makes samples hard."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n_samples)
    own = rng.normal(size=(n_learners, n_samples))
    skill = np.sqrt(shared) * rng.normal(size=n_samples) + np.sqrt(1 - shared) * own
    return assess(truth, np.where(skill < 0.524, truth, 1 - truth))


def test_the_first_lines_say_what_a_panel_is_worth_and_what_a_change_brings():
    a = panel(6, 0.55)
    decision, vote, worth, changes = said(a)
    assert decision == a.decision.text
    assert vote.startswith(
        f"6 learners voted on 600 samples, and the majority vote is right on {percent(a.vote.value)}"
    )
    assert vote.endswith(f"; one learner is on average on {percent(a.accuracies.mean())}.")
    votes, own = a.effective.votes, a.effective.independence
    assert worth == (
        f"The 6 learners are worth {votes.value:.1f} independent learners as good as {a.effective.best} (95 % "
        f"confidence: {votes.low:.1f} to {votes.high:.1f}). They err like {own.value:.1f} independent learners."
    )
    more = next(finding for finding in a.findings if finding.code == "more_learners")
    assert changes.startswith(more.text)
    assert changes.endswith("Leaving learners out brings no sure gain.")


def test_the_first_lines_begin_with_the_decision_and_stress_it():
    for a in (panel(5, 0.0), panel(2, 0.0)):
        (first, stressed), *rest = lead(a)[0]
        assert stressed
        assert a.decision.text.startswith(first.replace("\N{NO-BREAK SPACE}", " "))
        assert not any(strong for _, strong in rest)


def test_a_panel_worth_less_than_its_best_is_said_to_take_from_it():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 1000)
    accuracies = np.array([0.95, 0.5, 0.5, 0.5, 0.5])[:, None]
    a = assess(truth, np.where(rng.random((5, 1000)) < accuracies, truth, 1 - truth))
    decision, _, worth = said(a)
    assert decision.startswith("Use L1 alone: it is right on ")
    assert a.effective.votes.high < 1
    assert re.match(r"The 5 learners are worth 0\.\d\d times L1 alone \(95 % confidence: ", worth)
    assert "): the others take more from L1 than they add. They err like " in worth
    assert "the others take more" not in said(panel(6, 0.0))[2]


def test_a_worth_that_the_most_frequent_answer_does_not_show_is_said_not_to():
    """The vote of two is the mean of their accuracies; together they still tell more than the better one."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 4000)
    a = assess(truth, np.where(rng.random((2, 4000)) < np.array([[0.85], [0.75]]), truth, 1 - truth))
    assert a.decision.code == "use_best"
    assert a.effective.votes.value == pytest.approx(1.19, abs=0.1)  # (0.7 + 0.5)^2 / 1.26 over 0.7^2 / 0.51
    assert ", which the most frequent answer does not show. They err like" in said(a)[2]


def test_guessers_of_a_rare_class_are_said_to_be_no_better_than_one_answer():
    rng = np.random.default_rng(2)
    truth = np.where(rng.random(2000) < 0.03, "yes", "no")
    guesses = np.where(rng.random((5, 2000)) < 0.03, "yes", "no")
    a = assess(truth, guesses)
    lines = said(a)
    assert (
        f"Always answering no would be right on {percent(a.by_class.baseline)}: the vote is not surely better."
        in lines[1]
    )
    assert len(lines) == 2
    assert not any("worth" in line for line in lines)
    assert effective_figure(a) is None
    assert (a.decision.code, a.decision.severity) == ("unclear", "warning")


def test_a_vote_that_lacks_a_number_says_why(lonely):
    assert len(said(lonely)) == 1
    truth = np.tile([0, 1], 50)
    with pytest.warns(UndefinedMeasureWarning):
        perfect = assess(truth, [truth, truth])
    assert said(perfect)[2] == "What the 2 learners are worth is undefined: L1 is never wrong."


def test_circles_are_filled_up_to_the_effective_votes():
    a = panel(6, 0.55)
    figure = effective_figure(a)
    whole = int(a.effective.votes.value)
    assert len(figure["filled"]) == whole + 1
    assert figure["filled"][:whole] == [_filled(1.0)] * whole
    assert figure["low"] <= figure["value"] <= figure["high"]
    many = effective_figure(panel(30, 0.55))
    assert many["bar"]
    assert many["value"] / many["length"] == pytest.approx(
        panel(30, 0.55).effective.votes.value / 30, abs=0.01
    )


def test_smaller_votes_are_averaged_over_which_learners_take_part(five):
    from counterpoint.report._figures import sizing_figure

    subsets = five.votes.subsets
    assert subsets.sizes.tolist() == [1, 2, 3, 4, 5]
    assert subsets.mean[0] == pytest.approx(five.accuracies.mean())
    assert subsets.mean[-1] == subsets.low[-1] == subsets.high[-1] == pytest.approx(five.votes.hard.value)
    assert (subsets.low <= subsets.mean).all()
    figure = sizing_figure(five)
    assert [title.split(" of ")[0] for _, _, title in figure["subset_marks"]] == ["1", "3", "5"]


def test_undefined_numbers_are_called_so(lonely, five):
    assert number(np.nan) == percent(np.nan) == points(np.nan) == "undefined"
    page = Page(EnsembleReport(lonely).html())
    tiles = [e["text"] for e in page.all("dd") if e["class"] == "figure"]
    assert tiles[2:] == ["undefined", "undefined"]
    assert "Soft vote" not in EnsembleReport(five).markdown()


def test_the_probabilities_of_a_soft_vote_are_shown_with_their_scores(soft, five):
    report = EnsembleReport(soft)
    page = Page(report.html())
    (section,) = [e for e in page.all("section") if e.get("aria-labelledby") == "e1-probabilities"]
    of_vote = soft.probabilities
    for score in (of_vote.log_loss, of_vote.brier_score, of_vote.calibration_error):
        assert number(score) in section["text"]
    assert f"| Log-loss | {number(soft.probabilities.log_loss)} | mean learner " in report.markdown()
    assert "| Geometric vote |" in report.markdown()
    labels = EnsembleReport(five)
    assert "-probabilities" not in labels.html()
    assert "Log-loss" not in labels.markdown()


def test_the_reliability_diagram_shows_every_bin_that_holds_samples(soft):
    from counterpoint.report._probabilities import reliability_figure

    figure = reliability_figure(soft)
    frame, bins = figure["frame"], soft.probabilities.reliability
    full = np.flatnonzero(bins.count)
    assert [p["x"] for p in figure["points"]] == [frame.at_x(x) for x in bins.confidence[full]]
    assert [p["y"] for p in figure["points"]] == [frame.at_y(y) for y in bins.accuracy[full]]
    assert [p["to"] for p in figure["points"]] == [frame.at_y(x) for x in bins.confidence[full]]
    heights = np.array([b["height"] for b in figure["bars"]])
    np.testing.assert_allclose(heights / heights.max(), bins.count[full] / bins.count.max(), atol=0.01)
    assert figure["points"][-1]["title"].endswith(f": {bins.count[full[-1]]} samples")
    assert figure["bars"][-1]["title"].endswith(f": {percent(bins.count[full[-1]] / 400)} of the samples")


def test_a_comparison_shows_the_scores_of_the_votes_that_have_probabilities(five, soft):
    report = EnsembleReport([five, soft])
    of_vote = soft.probabilities
    scores = " | ".join(map(number, (of_vote.log_loss, of_vote.brier_score, of_vote.calibration_error)))
    head = "| ensemble | vote | log-loss | Brier score | calibration error |\n|---|---|--:|--:|--:|\n"
    assert f"{head}| Soft | soft | {scores} |\n\n" in report.markdown()
    (table,) = [e for e in Page(report.html()).all("table") if "scores" in e.get("class", "")]
    assert "Calibration error" in table["text"]
    assert "Calibration error" not in EnsembleReport([five, five]).html()
    assert "log-loss" not in EnsembleReport([five, five]).markdown()


def test_advice_is_marked_in_words(five, awkward):
    for assessment in (five, awkward):
        page = Page(EnsembleReport(assessment).html())
        badges = [e["text"].split()[1] for e in page.all("span") if e.get("class") == "badge"]
        words = {"warning": "Warning", "info": "Note", "good": "Good"}
        assert badges == [words[finding.severity] for finding in assessment.findings]


def test_several_ensembles_start_with_a_comparison(five, soft):
    report = EnsembleReport([five, soft])
    page = Page(report.html())
    assert page.all("h2")[0]["text"] == "Comparison"
    assert page.all("h1")[0]["text"] == "2 ensembles compared"
    head, _, *rows = [line for line in report.markdown().splitlines() if line.startswith("|")][:4]
    assert head.startswith("| ensemble | learners | vote |")
    assert rows[1].startswith(f"| Soft | 11 | {percent(soft.vote.value)} |")


def test_names_are_made_unique(five, soft):
    taken = replace(soft, name="Soft (2)")
    names = [a.name for a in EnsembleReport([soft, taken, soft, soft]).assessments]
    assert names == ["Soft", "Soft (2)", "Soft (3)", "Soft (4)"]


def test_json_gives_the_assessments_back(five, lonely):
    data = json.loads(EnsembleReport([five, lonely], date="2026-01-01").to_json())
    again = Assessment.from_dict(data["assessments"][0])
    assert again.verdict == five.verdict
    assert data["date"] == "2026-01-01"
    assert data["schema"] == 2
    assert data["assessments"][1]["correlations"]["r_ll"] is None


def test_markdown_keeps_names_from_being_markup(five):
    lines = EnsembleReport(five).markdown().splitlines()
    assert any(line.startswith(r"| naive \| bayes |") for line in lines)
    assert any(line.startswith("| &lt;script&gt;alert(1)&lt;/script&gt; |") for line in lines)
    rows = [line for line in lines if line.startswith("| ") and "±" in line and "judged" not in line]
    widths = {line.replace(r"\|", "").count("|") for line in rows}
    assert widths == {6}


def test_a_date_is_printed_only_if_given(soft):
    assert EnsembleReport(soft).html() == EnsembleReport(soft).html()
    assert re.search(r"Made by counterpoint [\d.]+\.", EnsembleReport(soft).html())
    assert " on 1 May 2026." in EnsembleReport(soft, date="1 May 2026").html()
    assert json.loads(EnsembleReport(soft, date=date(2026, 5, 1)).to_json())["date"] == "2026-05-01"


def test_a_title_replaces_the_name(soft):
    assert "<h1><bdi>A &amp; B</bdi></h1>" in EnsembleReport(soft, title="A & B").html()
    assert "<h1><bdi>2026</bdi></h1>" in EnsembleReport(soft, title=2026).html()


def test_the_page_is_written_where_asked(soft, tmp_path):
    path = EnsembleReport(soft).write_html(tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8") == EnsembleReport(soft).html()


def test_a_page_is_replaced_whole_or_not_at_all(soft, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        EnsembleReport(soft).write_html(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(five):
    (frame,) = Page(EnsembleReport(five)._repr_html_()).elements
    assert frame["tag"] == "iframe"
    assert frame["sandbox"] == "allow-scripts"
    assert frame["srcdoc"] == EnsembleReport(five).html()


def test_a_report_is_frozen_and_prints_well(five, soft):
    report = EnsembleReport([five, soft])
    assert repr(report) == "<EnsembleReport on 'Five </script> models', 'Soft'>"
    with pytest.raises(FrozenInstanceError):
        report.title = "other"


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([], ValueError, "`assessments` must hold at least one Assessment; got none."),
        ([1], TypeError, "`assessments` must be an Assessment or a sequence of them; got int."),
        (5, TypeError, "`assessments` must be an Assessment or a sequence of them; got int."),
        ("ab", TypeError, "`assessments` must be an Assessment or a sequence of them; got str."),
    ],
)
def test_other_things_than_assessments_are_refused(given, error, words):
    with pytest.raises(error, match=re.escape(words)):
        EnsembleReport(given)


def test_every_measure_is_explained():
    assert set(EXPLANATIONS) == set(MEASURES)


def test_every_measure_stands_with_its_direction(soft):
    rows = [e["text"] for e in Page(EnsembleReport(soft).html()).all("tr") if e.get("role") == "row"][
        -len(MEASURES) :
    ]
    assert len(rows) == len(MEASURES)
    for row, (key, measure) in zip(rows, MEASURES.items(), strict=True):
        assert {"lower": "← low", "higher": "→ high"}[measure.direction] in row
        assert number(soft.measures[key]) in row


@pytest.mark.parametrize(
    ("text", "most", "short"),
    [
        ("short", 10, "short"),
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 9, "abcd…hijk"),
        ("tree number 12", 8, "tree…12"),
        ("день недели", 11, "день недели"),
        ("漢字漢字漢字", 12, "漢字漢字漢字"),
        ("漢字漢字漢字漢字", 12, "漢字漢…漢字"),
        ("a & b & c & d", 12, "a &…& d"),
    ],
)
def test_long_names_lose_their_middle(text, most, short):
    assert shorten(text, most) == short


@pytest.mark.parametrize(
    ("value", "text"), [(0.001234, "+0.12"), (-0.05, "\N{MINUS SIGN}5.00"), (-1e-9, "0.00")]
)
def test_changes_are_signed(value, text):
    assert points(value) == text


def test_what_rounds_to_zero_has_no_sign():
    assert [number(-1e-9), number(-0.004, 2), number(-0.0), percent(-1e-9)] == [
        "0.000",
        "0.00",
        "0.000",
        "0.0 %",
    ]
    assert number(-0.006, 2) == "\N{MINUS SIGN}0.01"


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_in_both_schemes(scheme):
    blocks = re.findall(r":root \{(.*?)\}", resource("page.css"), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks)
    colours = light if scheme == 0 else light | dark
    for text in ("ink", "muted", "blue", "red", "warning", "good"):
        for ground in ("paper", "panel"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("full", ["#cc3311", "#0077bb"])
@pytest.mark.parametrize(("blank", "entry"), [("#f7f7f7", "#000000"), ("#22272e", "#ffffff")])
def test_values_in_the_matrix_can_be_read_at_every_strength(full, blank, entry):
    assert f"--blank: {blank}" in resource("page.css")
    for strength in np.arange(0, 1.005, 0.01):
        mixed = [
            round(strength * int(full[i : i + 2], 16) + (1 - strength) * int(blank[i : i + 2], 16))
            for i in (1, 3, 5)
        ]
        strong = strength >= _STRONG["pos" if full == "#cc3311" else "neg"]
        text = "#ffffff" if strong else entry
        assert contrast("#{:02x}{:02x}{:02x}".format(*mixed), text) >= 4.5


def test_the_matrix_of_an_assessment_is_that_of_its_predictions():
    from matplotlib.figure import Figure

    from counterpoint import assess
    from counterpoint.plots import CorrelationDisplay

    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 200)
    votes = np.where(rng.random((6, 200)) < 0.7, truth, rng.integers(0, 3, (6, 200)))
    from_votes = CorrelationDisplay.from_predictions(truth, votes, ax=Figure().subplots())
    from_numbers = CorrelationDisplay.from_assessment(assess(truth, votes), ax=Figure().subplots())
    assert from_numbers.names == from_votes.names
    np.testing.assert_allclose(from_numbers.matrix, from_votes.matrix, atol=1e-12)


def test_the_way_an_ensemble_took_is_drawn_on_the_plane():
    truth = np.tile([0, 1], 50)
    rng = np.random.default_rng(0)
    votes = np.where(rng.random((3, 100)) < 0.8, truth, 1 - truth)
    ways = {"trained": ([0.1, 0.4, 0.6], [0.0, 0.2, 0.4])}
    page = EnsembleReport(assess(truth, votes, name="trained"), trajectories=ways).html()
    assert page.count('class="trajectory') == 1
    assert "The line is its path in training" in page
    assert 'class="trajectory' not in EnsembleReport(assess(truth, votes)).html()
    with pytest.raises(ValueError, match="`trajectories` must be one of 'trained'; got 'other'"):
        EnsembleReport(assess(truth, votes, name="trained"), trajectories={"other": ways["trained"]})


def test_a_trajectory_may_pass_one_by_rounding(five):
    ways = {five.name: (np.array([0.5, 1.0000002]), np.array([1.0000002, -1.0000002]))}
    (way,) = EnsembleReport(five, trajectories=ways).trajectories.values()
    assert np.max(np.abs(way)) == 1


@pytest.mark.parametrize("ways", [0, "", [], [("five", (0, 0))]])
def test_trajectories_are_a_mapping(five, ways):
    with pytest.raises(TypeError, match=f"^`trajectories` must be a mapping; got {type(ways).__name__}.$"):
        EnsembleReport(five, trajectories=ways)


@pytest.mark.parametrize(
    ("way", "error", "words"),
    [
        (
            ([0.1, 2.0], [0.5, 0.5]),
            ValueError,
            "`trajectories['Soft'].r_tl` must be between -1 and 1; got 2 at [1].",
        ),
        ((0.1, np.inf), ValueError, "`trajectories['Soft'].r_ll` must be between -1 and 1; got inf."),
        (
            (["x"], [0.5]),
            TypeError,
            "`trajectories['Soft'].r_tl` must be a number or an array of numbers; got ",
        ),
        (([], []), TypeError, "`trajectories['Soft'].r_tl` must be a number or an array of numbers; got "),
        (
            ([0.1, 0.2], [0.1, 0.2, 0.3]),
            ValueError,
            "`trajectories['Soft'].r_tl` and `trajectories['Soft'].r_ll` must have shapes that broadcast; "
            "got (2,) and (3,).",
        ),
        (
            ([[0.1]], [0.2]),
            ValueError,
            "`trajectories['Soft'].r_tl` must be a number or a row of numbers; got shape",
        ),
        (([0.1],), TypeError, "`trajectories['Soft']` must be a pair (r_tl, r_ll); got ([0.1],)."),
        (
            ([[0.1], [0.2, 0.3]], [0.1]),
            TypeError,
            "`trajectories['Soft']` must be a pair (r_tl, r_ll); got ([[0.1], [0.2, 0.3]], [0.1]).",
        ),
        (3, TypeError, "`trajectories['Soft']` must be a pair (r_tl, r_ll); got 3."),
    ],
)
def test_a_trajectory_is_two_rows_of_correlations(soft, way, error, words):
    with pytest.raises(error, match=re.escape(words)):
        EnsembleReport(soft, trajectories={"Soft": way})


def test_a_trajectory_has_a_gap_where_an_epoch_is_undefined(soft):
    from counterpoint.report._figures import plane_figure

    report = EnsembleReport(soft, trajectories={"Soft": ([0.1, 0.2, np.nan, 0.4], [0.1, 0.2, 0.3, 0.4])})
    plane = plane_figure([soft], report.trajectories)
    assert re.findall("[ML]", plane["trajectories"][0]["line"]) == ["M", "L", "M"]
    assert plane["frame"].y[0] == 0


def test_a_page_is_written_to_a_path(five):
    with pytest.raises(TypeError, match=r"^`path` must be the path of a file; got 3\.$"):
        EnsembleReport(five).write_html(3)


def test_the_verdict_of_a_comparison_is_that_of_the_paired_test():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    votes, alike = np.where(rng.random((2, 9, 300)) < 0.75, truth, 1 - truth)
    for other, words in (
        (alike, "a paired test cannot tell them apart"),
        (votes[:2], "a paired test tells them apart"),
    ):
        ensembles = {"all": votes, "some": other}
        assessments = [assess(truth, outputs, name=name) for name, outputs in ensembles.items()]
        tested = compare_votes(truth, ensembles)
        report = EnsembleReport(assessments, comparison=tested)
        assert words in report.markdown()
        assert words in report.html()
        assert json.loads(report.to_json())["comparison"] == tested.to_dict()
        assert "a paired test" not in EnsembleReport(assessments).markdown()
    with pytest.raises(TypeError, match=r"^`comparison` must be a VoteComparison; got dict\.$"):
        EnsembleReport(assessments, comparison={})


def test_a_model_card_has_the_numbers_of_the_assessment(five):
    card = EnsembleReport(five, date="2026-01-01").model_card(
        what="WHAT", use="USE", data="DATA", limits="LIMITS"
    )
    front, text = re.fullmatch(r"---\n(.*?)---\n(.*)", card, re.DOTALL).groups()
    assert json.loads(re.search(r"^model_name: (.*)$", front, re.MULTILINE)[1]) == five.name
    places = [
        text.index(words) for words in ("WHAT", "USE", "DATA", "## How good", "## Where it errs", "LIMITS")
    ]
    assert places == sorted(places)
    assert f"| Accuracy of the vote | {percent(five.vote.value)} | {interval(five.vote)} |" in text
    assert escape(five.verdict, quote=False) in text
    counts = five.by_class.confusion.table(five.n_classes)
    np.fill_diagonal(counts, 0)
    truth, said = np.unravel_index(counts.argmax(), counts.shape)
    right, wrong = (escape(five.classes[place], quote=False) for place in (truth, said))
    assert f"- It takes {right} for {wrong}: " in text
    for finding in five.findings:
        if finding.severity == "warning":
            assert finding.text in text
    assert card.endswith(f"Made by counterpoint {__version__} on 2026-01-01.\n")
    assert "\n\n\n" not in card


def test_a_model_card_keeps_names_from_being_markup_and_says_what_it_lacks():
    with pytest.warns(UndefinedMeasureWarning):
        perfect = assess(
            ["<b>", "x|y"], [["<b>", "x|y"], ["<b>", "x|y"]], name='a "b"\n# c', samples="training"
        )
    card = EnsembleReport(perfect).model_card()
    assert "<b>" not in card
    assert "x\\|y" in card
    assert "\n# c" not in card
    assert "It makes no error on these samples." in card
    assert "on new ones they do worse" in card


def test_a_model_card_is_about_one_ensemble(five):
    with pytest.raises(ValueError, match=r"A model card is about one ensemble; this report is on 2\."):
        EnsembleReport([five, five]).model_card()
