"""The dial of diversity on images: jobs that are kept, tables of the record, and the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpoint.records import NONE, fill, number
from paper import reproduce
from paper.__main__ import main
from paper.convnets import dial, rates, robust_tables, study
from paper.convnets import dial_tables as tables
from paper.convnets.images import ImageSets
from paper.documents import PAGES

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "results" / "image-dial.json"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    assert main(["image-dial", "--smoke", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def committed():
    return read(RECORD)


def test_a_smoke_run_writes_record_page_and_picture(smoke):
    record = read(smoke / "image-dial.json")
    assert list(record["data"]) == [name for name, *_ in study.plan(dial.SMOKE_POINTS)]
    assert record["config"] == {"smoke": True}
    page = (smoke / "image-dial.md").read_text(encoding="utf-8")
    assert page == dial.STUDY.in_markdown(record)
    assert "**Smoke run. digits, 2 of width 2, 1 epoch**" in page
    assert all(tables.NAMES[arm] in page for arm in dial.SMOKE_POINTS[0].arms)
    for end in ("png", "svg"):
        assert (smoke / f"image-dial.{end}").stat().st_size > 1000


def test_every_job_scores_its_vote_and_its_learners(smoke):
    for piece in read(smoke / "image-dial.json")["data"].values():
        found, config = piece["data"], piece["config"]
        for vote in ("vote", "soft", "geometric"):
            assert found[vote].keys() == {"error", "log_loss", "brier_score", "calibration_error"}
        assert 0 <= found["vote"]["error"] <= 1
        assert 0 <= found["learner_error"] <= 1
        assert len(found["history"]["loss"]) == config["epochs"]
        # The vote of each loss is the one that it trains; the paper's has a read-out of its own.
        paper = config["arm"].startswith("paper")
        assert ("without_readout" in found) == paper
        if not paper:
            soft = config["arm"] in ("independent", "single", "joint-proba")
            assert found["vote"] == pytest.approx(found["soft" if soft else "geometric"], abs=2e-5)


def test_an_interrupted_run_resumes_after_its_finished_jobs(tmp_path, monkeypatch):
    names = [name for name, *_ in study.plan(dial.SMOKE_POINTS[1:])]
    done, work = [], study.run

    def stopped(point, arm, *rest):
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(arm)
        return work(point, arm, *rest)

    monkeypatch.setattr(study, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce("image-dial", tmp_path, smoke=True, parts="digits-w4")
    first = tmp_path / "image-dial" / f"{names[0]}.json"
    assert [path.name for path in first.parent.glob("*.json")] == [first.name]
    kept = first.stat().st_mtime_ns

    again = []
    monkeypatch.setattr(study, "run", lambda point, arm, *rest: again.append(arm) or work(point, arm, *rest))
    reproduce("image-dial", tmp_path, smoke=True, parts="digits-w4")
    assert again == list(dial.SMOKE_POINTS[1].arms[1:])
    assert list(read(tmp_path / "image-dial.json")["data"]) == names
    assert first.stat().st_mtime_ns == kept


def test_arms_of_a_seed_start_from_the_same_weights_and_see_the_same_batches(monkeypatch):
    seen = []

    def look(ensemble, batches, **_):
        weights = [value.clone() for value in ensemble.state_dict().values()]
        seen.append([*weights, *next(iter(batches))])
        raise InterruptedError

    monkeypatch.setattr(study, "fit", look)
    images, point = ImageSets(None, smoke=True)["digits"], dial.SMOKE_POINTS[0]
    for arm, seed in (("independent", 0), ("0.9", 0), ("0.9", 1)):
        with pytest.raises(InterruptedError):
            study.run(point, arm, seed, images, torch.device("cpu"))
    first, same, other = seen
    assert all(bool((a == b).all()) for a, b in zip(first, same, strict=True))
    assert not all(bool((a == b).all()) for a, b in zip(first, other, strict=True))


def piece(arm, seed, error, *, width=8, geometric=None):
    """Return a job with known errors."""

    def scores(error):
        return {
            "error": error,
            "log_loss": 2 * error,
            "brier_score": 1.5 * error,
            "calibration_error": error / 10,
        }

    config = {"data": "cifar10", "width": width, "n_learners": 10, "epochs": 10, "arm": arm, "seed": seed}
    found = {"vote": scores(error), "geometric": scores(error if geometric is None else geometric)}
    return {"config": config, "data": {**found, "learner_error": 1.25 * error, "r_tl": 0.6, "r_ll": 0.5}}


def record_of(*pieces):
    return {"config": {"smoke": False}, "data": {f"job-{k}": one for k, one in enumerate(pieces)}}


def test_the_numbers_of_the_table_follow_from_the_record():
    record = record_of(
        piece("independent", 0, 0.20, geometric=0.19),
        piece("independent", 1, 0.24, geometric=0.228),
        piece("0.9", 0, 0.15),
        piece("0.9", 1, 0.21),
        piece("joint-logits", 0, 0.22),
        piece("0.9", 0, 0.3, width=16),  # without a baseline, so no table
    )
    summary, (grid,) = tables.summary(record), tables.grids(record)
    # fewer errors: 25 and 12.5 % in the two seeds, so 18.75 on average, with a standard deviation of 8.84; Student's
    # interval of two values is 12.7 times 8.84 / sqrt(2) to both sides.
    name = "CIFAR-10, 10 of width 8, 10 epochs"
    assert summary.rows == [
        [name, "22.00 ± 2.83", "18.00 ± 4.24", "+18.8 [−60.7, 98.2]", "0.440 → 0.360", "22.00", NONE, "2"]  # noqa: RUF001
    ]
    assert grid.title == name
    # r_TL = 0.6 of at most sqrt(0.55) = 0.74
    assert grid.rows == [
        ["independent, soft vote", "22.00 ± 2.83", NONE, "0.440 ± 0.057", "0.330 ± 0.042", "2.2 ± 0.3", "27.5 ± 3.5",
         "0.60", "0.50", "0.81", "2"],
        ["independent, geometric vote", "20.90 ± 2.69", "+5.0 [5.0, 5.0]", "0.418 ± 0.054", "0.314 ± 0.040",
         "2.1 ± 0.3", "", "", "", "", "2"],
        ["DiversityLoss(0.9)", "18.00 ± 4.24", "+18.8 [−60.7, 98.2]", "0.360 ± 0.085", "0.270 ± 0.064",  # noqa: RUF001
         "1.8 ± 0.4", "22.5 ± 5.3", "0.60", "0.50", "0.81", "2"],
        ["averaged logits, the dial at 1", "22.00", "−10.0", "0.440", "0.330", "2.2", "27.5",  # noqa: RUF001
         "0.60", "0.50", "0.81", "1"],
    ]  # fmt: skip


def test_the_diversity_of_the_cross_entropy_is_shown_where_it_was_measured():
    old, new = piece("independent", 0, 0.2), piece("0.9", 0, 0.1)
    (grid,) = tables.grids(record_of(old, new))
    assert "D" not in grid.headings
    new["data"]["cross_entropy_diversity"] = 0.456
    (grid,) = tables.grids(record_of(old, new))
    assert [row[grid.headings.index("D")] for row in grid.rows] == [NONE, "", "0.46"]


def test_an_arm_is_compared_with_independent_training_of_its_own_seeds():
    record = record_of(
        piece("independent", 0, 0.20),
        piece("independent", 1, 0.40),
        piece("0.9", 1, 0.30),
        piece("0.9", 2, 0.01),
    )
    (runs,) = tables.runs_by_point(record).values()
    np.testing.assert_allclose(tables.gain(runs, "0.9"), [25.0])


def test_the_page_says_what_the_record_says(committed):
    page = (ROOT / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8")
    for name, text in PAGES["image-dial"].render(committed).texts.items():
        assert fill(page, name, text) == page


def test_the_record_holds_the_jobs_beside_it_and_they_are_of_the_plan(committed):
    plan = {name: study.job_config(point, arm, seed) for name, point, arm, seed in study.plan(dial.POINTS)}
    assert not committed["config"]["smoke"]
    for name, one in committed["data"].items():
        assert one["config"] == plan[name]
        job = read(RECORD.parent / "image-dial" / f"{name}.json")
        assert {key: job[key] for key in ("config", "data")} == one
    assert {path.stem for path in (RECORD.parent / "image-dial").glob("*.json")} == committed["data"].keys()


PAGE = "images-when-diversity-pays.md"


@pytest.mark.parametrize(
    ("point", "documents"),
    [
        (("cifar10", 4, 10, 10), [PAGE]),
        (("cifar10", 8, 10, 10), [PAGE, "../README.md"]),
        (("cifar100", 8, 10, 10), [PAGE, "../README.md"]),
        (("cifar10", 32, 5, 10), [PAGE, "../README.md"]),
        (("cifar100", 32, 5, 10), [PAGE, "../README.md"]),
        (("cifar10", 16, 5, 10), [PAGE]),
        (("cifar100", 16, 5, 10), [PAGE]),
        (("cifar10", 64, 3, 10), [PAGE]),
        (("cifar100", 64, 3, 10), [PAGE]),
        (("cifar10", 32, 5, 30), [PAGE, "loss.md"]),
        (("cifar10", 32, 5, 50), [PAGE, "loss.md", "../README.md"]),
        (("cifar100", 4, 10, 10), [PAGE]),
        (("cifar10", 8, 10, 50), [PAGE]),
        (("cifar100", 8, 10, 50), [PAGE]),
        (("cifar100", 32, 5, 30), [PAGE]),
        (("cifar100", 32, 5, 50), [PAGE, "loss.md"]),
        (("cifar10", 8, 10, 40, 5_000), [PAGE]),
        (("cifar10", 32, 5, 40, 5_000), [PAGE, "loss.md"]),
        (("cifar10", 8, 10, 1), [PAGE]),
        (("cifar10", 32, 5, 1), [PAGE]),
        (("cifar100", 8, 10, 1), [PAGE]),
        (("cifar10", 8, 5, 10), [PAGE]),
    ],
)
def test_the_gain_of_the_default_in_prose_is_that_of_the_record(point, documents, committed):
    key = tables.Key(*point)
    share = tables.gain(tables.runs_by_point(committed)[key], key.default)
    fewer = share if share.mean() > 0 else -share
    low, high = tables.interval(fewer)
    words = f"{fewer.mean():.1f} % {'fewer' if share.mean() > 0 else 'more'}"
    interval = f"{number(low, '.1f')}, {number(high, '.1f')}]"
    for document in documents:
        text = " ".join((ROOT / "docs" / document).read_text(encoding="utf-8").split())
        assert words in text
        assert interval in text


@pytest.mark.parametrize(
    ("point", "arm"),
    [
        (("cifar10", 8, 10, 10), "joint-proba"),
        (("cifar10", 32, 5, 10), "joint-proba"),
        (("cifar10", 32, 5, 10), "joint-logits"),
        (("cifar10", 8, 10, 10), "paper-0.9"),
        (("cifar10", 8, 10, 10), "0.5"),
        (("cifar10", 4, 10, 10), "paper-0.9"),
        (("cifar10", 32, 5, 10), "paper-0.9"),
        (("cifar100", 32, 5, 10), "paper-0.9"),
        (("cifar100", 8, 10, 10), "paper-0.9"),
    ],
)
def test_the_gain_of_another_loss_in_prose_is_that_of_the_record(point, arm, committed):
    share = tables.gain(tables.runs_by_point(committed)[tables.Key(*point)], arm)
    fewer = share if share.mean() > 0 else -share
    ends = ", ".join(number(end, ".1f") for end in tables.interval(fewer))
    words = rf"{fewer.mean():.1f} % {'fewer' if share.mean() > 0 else 'more'}[^%]* \[{re.escape(ends)}\]"
    assert re.search(words, " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split()))


@pytest.mark.parametrize(
    ("point", "arm", "words"),
    [
        (("cifar100", 8, 10, 10), "paper-0.9", "by {} % at width 8 on CIFAR-100 [{}, {}]"),
        (("cifar10", 32, 5, 10), "paper-0.9", "by {} % on CIFAR-10 [{}, {}]"),
        (("cifar100", 32, 5, 10), "paper-0.9", "by {} % on CIFAR-100 [{}, {}]"),
        (("cifar10", 8, 10, 10), "joint-proba", "{} % higher at width 8 [{}, {}]"),
        (("cifar10", 32, 5, 10), "joint-proba", "{} % higher at width 32 [{}, {}]"),
    ],
)
def test_the_log_loss_of_another_loss_in_prose_is_that_of_the_record(point, arm, words, committed):
    higher = -tables.gain(tables.runs_by_point(committed)[tables.Key(*point)], arm, "log_loss")
    said = words.format(*(number(v, ".1f") for v in (higher.mean(), *tables.interval(higher))))
    assert said in " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())


def test_the_arms_below_the_picture_are_named_under_it(committed):
    picture = tables.draw(committed)
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    below = {
        (key, arm): tables.gain(runs, arm, measure).mean()
        for ax, measure in zip(picture.axes, ("error", "log_loss"), strict=True)
        for key, runs in tables.runs_by_point(committed).items()
        for arm in tables.DRAWN
        if arm in runs and tables.gain(runs, arm, measure).mean() < ax.get_ylim()[0]
    }
    proba, paper = (
        (tables.Key("cifar10", 32, 5, 10), "joint-proba"),
        (tables.Key("cifar100", 32, 5, 10), "paper-0.9"),
    )
    assert below.keys() == {proba, paper}
    assert f"averaged probabilities at width 32 on CIFAR-10 ({number(below[proba], '.0f')} %)" in page
    assert f"the paper's loss at width 32 on CIFAR-100 ({number(below[paper], '.0f')} %)" in page


def test_the_first_lines_round_the_gains_of_the_record(committed):
    points = tables.runs_by_point(committed)
    gains = [
        tables.gain(points[key], key.default).mean()
        for key in (
            tables.Key(data, width, 10 if width == 8 else 5, epochs)
            for width, epochs in ((8, 10), (8, 50), (32, 10))
            for data in ("cifar10", "cifar100")
        )
    ]
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    assert f"make {gains[0]:.0f} % fewer errors on CIFAR-10 and {gains[1]:.0f} % fewer on CIFAR-100" in page
    assert f"After 50 epochs it is {gains[2]:.0f} and {gains[3]:.0f} %." in page
    assert {f"{gain:.0f}" for gain in gains[4:]} == {"7"}


def test_the_default_has_the_lower_log_loss_but_where_the_page_says(committed):
    higher = {
        key: -tables.gain(runs, key.default, "log_loss").mean()
        for key, runs in tables.runs_by_point(committed).items()
        if tables.gain(runs, key.default, "log_loss").mean() < 0
    }
    assert {key: round(value) for key, value in higher.items()} == {
        ("cifar10", 32, 5, 30, 0): 4,
        ("cifar10", 32, 5, 50, 0): 18,
        ("cifar10", 32, 5, 40, 5_000): 5,
        ("cifar100", 32, 5, 50, 0): 4,
    }


def test_one_network_of_the_same_size_is_behind_where_the_page_says(committed):
    points = tables.runs_by_point(committed)
    behind = [
        key[:3]
        for key, runs in points.items()
        if "single" in runs and _error(runs, key.default) < _error(runs, "single")
    ]
    assert behind == [("cifar10", 32, 5), ("cifar100", 4, 10), ("cifar100", 32, 5)]
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    for key in (
        tables.Key("cifar10", 32, 5, 10),
        tables.Key("cifar100", 32, 5, 10),
        tables.Key("cifar100", 4, 10, 10),
    ):
        ours, theirs = (_error(points[key], arm) for arm in (key.default, "single"))
        digits = 1 if key.width == 4 else 2
        assert f"{ours:.{digits}f} against {theirs:.{digits}f} %" in " ".join(page.split())


def _between(sample, digits=1):
    """Return the interval of a sample as the page writes it."""
    return "[{}, {}]".format(*(number(end, f".{digits}f") for end in tables.interval(np.asarray(sample))))


def test_what_is_said_of_one_network_is_in_the_record(committed):
    points = tables.runs_by_point(committed)
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())

    def more(data, width, n_learners, measure="error"):
        runs = points[tables.Key(data, width, n_learners, 10)]
        ours, theirs = (tables.values(runs, arm, measure) for arm in ("0.9", "single"))
        return 100 * (ours / theirs - 1)

    errors, losses = more("cifar100", 8, 10), more("cifar100", 8, 10, "log_loss")
    assert f"it makes {errors.mean():.1f} % more errors {_between(errors)}" in page
    assert f"a log-loss that is {losses.mean():.1f} % higher {_between(losses)}" in page
    low, high = tables.interval(more("cifar100", 4, 10, "log_loss"))
    assert low < 0 < high
    fewer = -more("cifar100", 4, 10)
    assert f"{fewer.mean():.1f} % fewer {_between(fewer)}), and there the one network has 17 %" in page

    def missing(data, width, n_learners):
        """Return by how many % one network has fewer parameters."""
        runs = points[tables.Key(data, width, n_learners, 10)]
        sizes = [runs[arm][0]["n_parameters"] for arm in ("single", "independent")]
        return 100 * (1 - sizes[0] / sizes[1])

    assert f"at width 8 it has {missing('cifar10', 8, 10):.0f} % fewer" in page
    small = [missing("cifar100", width, 10) for width in (4, 8)]
    assert "at widths 4 and 8 {:.0f} and {:.0f} % fewer".format(*small) in page
    others = (("cifar10", 4, 10), ("cifar10", 32, 5), ("cifar100", 32, 5))
    assert max(abs(missing(*one)) for one in others) < 2


def test_part_of_a_small_difference_is_the_vote(committed):
    points = tables.runs_by_point(committed)
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    key = tables.Key("cifar10", 8, 10, 10)
    share = tables.gain(points[key], key.default, over="geometric")
    assert f"{share.mean():.1f} % fewer errors at width 8 on CIFAR-10 {_between(share)}" in page
    for key in (tables.Key("cifar100", 64, 3, 10), tables.Key("cifar100", 32, 5, 50)):
        assert tables.interval(tables.gain(points[key], key.default, over="geometric"))[0] < 0
    cost = tables.Key("cifar10", 32, 5, 50)
    more = -tables.gain(points[cost], cost.default, over="geometric").mean()
    assert f"at the point of the cost, the errors are {more:.1f} % more" in page
    few = tables.Key("cifar10", 32, 5, 40, 5_000)
    low, high = tables.interval(tables.gain(points[few], few.default, "log_loss", "geometric"))
    assert low < 0 < high
    lower = {
        key
        for key, runs in points.items()
        if np.mean(tables.values(runs, "independent", "log_loss", "geometric"))
        < np.mean(tables.values(runs, "independent", "log_loss"))
    }
    assert points.keys() - lower == {
        tables.Key("cifar10", 32, 5, 30),
        tables.Key("cifar10", 32, 5, 50),
        few,
    }


def test_the_page_on_the_loss_names_the_points_where_the_default_does_not_gain(committed):
    points = tables.runs_by_point(committed)
    text = (ROOT / "docs" / "loss.md").read_text(encoding="utf-8")
    gains = {
        key: [tables.gain(runs, key.default, measure).mean() for measure in ("error", "log_loss")]
        for key, runs in points.items()
    }
    both = {key for key, each in gains.items() if min(each) > 0}
    assert f"at {len(both)} of {len(gains)} points" in text
    for key in points.keys() - both:
        higher = -tables.gain(points[key], key.default, "log_loss")
        assert f"{higher.mean():.1f} % higher {_between(higher)} |" in text
        fit = np.mean([1 - one["train"]["vote"]["error"] for one in points[key][key.default].values()])
        assert fit > 0.985
    longer = [points[tables.Key("cifar10", 32, 5, epochs)] for epochs in (30, 50)]
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    fits = [
        100 * np.mean([1 - one["train"]["vote"]["error"] for one in runs[arm].values()])
        for arm in ("0.8", "independent")
        for runs in longer
    ]
    default, independent = (
        "on {:.1f} % after 30 epochs and {:.1f} % after 50".format(*fits[:2]),
        "on {:.1f} and {:.1f} %".format(*fits[2:]),
    )
    assert f"is right {default}, that of independent networks {independent}" in page


def _error(runs, arm):
    return 100 * tables.values(runs, arm, "error").mean()


def test_what_is_said_of_missing_learners_is_in_the_record(committed):
    arms = robust_tables.robust_runs(committed)[tables.Key("cifar10", 8, 10, 10)]

    def error(arm, k):
        return np.mean([100 * run["k_of_n"][k - 1]["error"] for run in arms[arm]])

    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    said = f"8 learners still errs on {error('0.9', 8):.1f} %, against {error('independent', 8):.1f} % for 8"
    assert said in page
    joint = [error("joint-logits", k) for k in (8, 5)]
    assert f"8 of 10 learners err on {joint[0]:.1f} % and 5 on {joint[1]:.1f} %" in page

    def differences(k, other):
        """Return the errors at 0.5 less those of another arm, in points, for the seeds of both."""
        pairs = zip(arms["0.5"], arms[other], strict=False)
        return [100 * (a["k_of_n"][k - 1]["error"] - b["k_of_n"][k - 1]["error"]) for a, b in pairs]

    for k in range(1, 11):
        low, high = tables.interval(np.array(differences(k, "independent")))
        assert (high < 0) == (k >= 3)
        low, high = tables.interval(np.array(differences(k, "0.9")))
        assert (high < 0, low > 0) == (k <= 4, k >= 8)
    for k in range(1, 11):
        pairs = zip(arms["0.9"], arms["independent"], strict=True)
        change = [a["k_of_n"][k - 1]["error"] - b["k_of_n"][k - 1]["error"] for a, b in pairs]
        assert (tables.interval(np.array(change))[1] < 0) == (k >= 6)
    five, one = -np.array(differences(5, "independent")), np.array(differences(1, "independent"))
    assert f"{five.mean():.1f} points fewer errors than independent networks {_between(five)}" in page
    assert f"one errs {one.mean():.1f} points more often {_between(one)}" in page
    assert tables.interval(np.array(differences(2, "independent")))[1] > 0
    between = -np.array(differences(5, "0.9"))
    assert f"differ by {between.mean():.1f} points there {_between(between)}, on three seeds" in page
    fewer = -np.array(differences(4, "0.9"))
    four = f"Four learners err on {error('0.5', 4):.1f} %, at 0.9 on {error('0.9', 4):.1f} %"
    assert f"{four} ({fewer.mean():.1f} points fewer {_between(fewer)}, same seeds)" in page
    rounded = [
        np.mean([100 * (run["int8"]["error"] - run["k_of_n"][-1]["error"]) for run in runs])
        for each in robust_tables.robust_runs(committed).values()
        for runs in each.values()
    ]
    assert max(rounded) < 0.035


def test_what_is_said_of_learning_rates_is_in_the_record():
    record = read(ROOT / "results" / "image-rates.json")["data"]

    def error(arm, rate):
        return 100 * record[f"cifar10-w8-{rate}-s0-{arm}"]["data"]["vote"]["error"]

    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    own, dial_ = (
        [error(arm, rate) for rate in (0.01, best)] for arm, best in (("independent", 0.3), ("0.9", 0.1))
    )
    assert (
        f"independent learners err on {own[0]:.1f} % at a rate of 0.01 and on {own[1]:.1f} % at 0.3" in page
    )
    assert f"the default on {dial_[0]:.1f} % at 0.01 and on {dial_[1]:.1f} % at 0.1" in page
    common, chosen = (1 - dial_[k] / own[k] for k in range(2))
    assert 1.4 < common / chosen < 1.7

    def higher(arm, best):
        """Return by how many % the log-loss is higher at the rate of width 32."""
        found = [record[f"cifar10-w8-{rate}-s0-{arm}"]["data"]["vote"]["log_loss"] for rate in (0.03, best)]
        return f"{100 * (found[0] / found[1] - 1):.0f} %"

    assert (
        f"independent training by {higher('independent', 0.3)} and that of the default by {higher('0.9', 0.1)}"
        in page
    )


def test_what_is_said_of_corrupted_images_is_in_the_record(committed):
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    for key, words in (
        (tables.Key("cifar10", 8, 10, 10), "{:.1f} against {:.1f} % errors"),
        (tables.Key("cifar10", 32, 5, 10), "it is {:.1f} against {:.1f} %"),
    ):
        arms = robust_tables.robust_runs(committed)[key]
        found = [
            100 * np.mean([run["shift"]["mean"]["error"] for run in arms[arm]])
            for arm in (key.default, "independent")
        ]
        assert words.format(*found) in page
        ours, theirs = (
            np.array([100 * run["shift"]["mean"]["error"] for run in arms[arm]])
            for arm in (key.default, "independent")
        )
        assert f"{(theirs - ours).mean():.1f} points fewer {_between(theirs - ours)}" in page
        single = np.mean([100 * run["shift"]["mean"]["error"] for run in arms["single"]])
        assert re.search(f"one network [^%]*has {single:.1f} %", page)


def test_the_ensemble_is_better_calibrated_than_one_network_on_corrupted_images(committed):
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    for width, n_learners in ((8, 10), (32, 5)):
        key = tables.Key("cifar10", width, n_learners, 10)
        arms = robust_tables.robust_runs(committed)[key]
        ours, theirs = (
            np.array([run["shift"]["mean"]["log_loss"] for run in arms[arm]])
            for arm in (key.default, "single")
        )
        assert f"{(theirs - ours).mean():.3f} lower at width {width} {_between(theirs - ours, 3)}" in page
        ours, theirs = (
            np.array([100 * run["shift"]["mean"]["calibration_error"] for run in arms[arm]])
            for arm in (key.default, "single")
        )
        assert f"{(theirs - ours).mean():.1f} points lower at width {width} {_between(theirs - ours)}" in page
    points = tables.runs_by_point(committed)
    clean = [
        f"{100 * tables.values(points[tables.Key(data, 8, 10, 10)], arm, 'calibration_error').mean():.1f}"
        for arm in ("0.9", "single")
        for data in ("cifar10", "cifar100")
    ]
    assert (
        "ECE is {} % on CIFAR-10 and {} % on CIFAR-100, that of one network {} and {} %".format(*clean)
        in page
    )


def test_what_is_said_of_unknown_images_is_in_the_record(committed):
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    points = robust_tables.robust_runs(committed)
    for arms in points.values():
        for arm, runs in arms.items():
            areas = {
                how: np.array([run["unknown"][how] for run in runs]) for how in ("entropy", "confidence")
            }
            assert tables.interval(areas["entropy"] - areas["confidence"])[0] > 0
            if arm != "single":
                mutual = [run["unknown"]["mutual_information"] for run in runs]
                assert np.mean(mutual) < areas["confidence"].mean()
    shown = points[tables.Key("cifar10", 8, 10, 10)]
    areas = [np.mean([run["unknown"][how] for run in shown["0.9"]]) for how in ("entropy", "confidence")]
    assert "{:.3f} and {:.3f} at width 8 and 0.9".format(*areas) in page
    for what, how, words in (
        ("unknown", "entropy", "an area of {:.3f} by entropy, {:.3f} more than the default"),
        ("wrong", "confidence", "({:.3f} by confidence, {:.3f} more"),
    ):
        theirs, ours = (np.array([run[what][how] for run in shown[arm]]) for arm in ("single", "0.9"))
        more = theirs - ours
        assert f"{words.format(theirs.mean(), more.mean())} {_between(more, 3)}" in page
    chance = np.mean([run["unknown"]["mutual_information"] for run in shown["joint-logits"]])
    assert f"better than chance (an area of {chance:.2f})" in page


def test_what_is_said_of_other_dials_and_of_the_read_out_is_in_the_record(committed):
    points = tables.runs_by_point(committed)
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())

    def more(data, width, arm="joint-logits"):
        runs = points[tables.Key(data, width, 10, 10)]
        ours, theirs = (tables.values(runs, one, "error") for one in (arm, "0.9"))
        return 100 * (ours / theirs[: len(ours)] - 1)  # seeds of both

    for data, words in (("cifar10", "more errors than the default there"), ("cifar100", "more on CIFAR-100")):
        found = more(data, 8)
        assert f"{found.mean():.1f} % {words} {_between(found)}" in page
        low, high = tables.interval(more(data, 4))
        assert low < 0 < high
    found = more("cifar10", 8, "joint-sum")
    assert f"{found.mean():.1f} % more errors on the same three seeds {_between(found)}" in page
    runs = points[tables.Key("cifar10", 8, 10, 10)]
    alone = {arm: 100 * tables.values(runs, arm, "learner_error", "").mean() for arm in runs}
    assert f"a single one of their learners errs on {alone['joint-sum']:.0f} %" in page
    assert (
        f"at 0.9 one errs on {alone['0.9']:.0f} %, an independent one on {alone['independent']:.0f} %" in page
    )
    said = f"it errs on {alone['joint-logits']:.0f} %, at 0.9 on {alone['0.9']:.0f} %"
    assert said in " ".join((ROOT / "docs" / "loss.md").read_text(encoding="utf-8").split())
    paper, own = runs["paper-0.9"], runs["independent"]
    found = [
        100 * (paper[s]["without_readout"]["error"] / own[s]["vote"]["error"] - 1) for s in sorted(paper)
    ]
    assert f"on CIFAR-10 is gone: {np.mean(found):.1f} % more errors {_between(found)}" in page


def test_what_the_dial_buys_is_in_the_record(committed):
    runs = tables.runs_by_point(committed)[tables.Key("cifar10", 8, 5, 10)]
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    arms = ("independent", "0.8", "joint-logits")
    apart = [tables.values(runs, arm, "cross_entropy_diversity", "").mean() for arm in arms]
    vote = [tables.values(runs, arm, "log_loss", "geometric").mean() for arm in arms]
    own = np.add(apart, vote)  # which the identity makes of them
    assert (
        "D is {:.2f} after independent training, {:.2f} at the default 0.8 and {:.2f} at 1".format(*apart)
        in page
    )
    assert "from {:.2f} to {:.2f} and {:.2f}; that of the vote".format(*own) in page
    assert "falls from {:.2f} to {:.2f}, and is {:.2f} at 1".format(*vote) in page


def test_the_sizes_of_the_networks_are_those_of_the_record(committed):
    points = tables.runs_by_point(committed)
    page = " ".join((ROOT / "docs" / PAGE).read_text(encoding="utf-8").split())
    small, large = (
        points[tables.Key("cifar10", width, n, 10)]["independent"][0]["n_parameters"] / n
        for width, n in ((8, 10), (32, 5))
    )
    assert (
        f"width 8 has {round(small, -3):,.0f} parameters, one of width 32 has {round(large, -4):,.0f}" in page
    )


def test_no_job_is_listed_twice():
    names = [name for name, *_ in study.plan(dial.POINTS)]
    assert len(set(names)) == len(names)


def test_the_single_network_has_the_size_of_the_ensemble():
    point = dial.POINTS[0]
    ensemble, single = (study._initial(point, arm, 0, 10) for arm in ("independent", "single"))
    ours, theirs = (sum(p.numel() for p in each.parameters()) for each in (ensemble, single))
    assert single.n_learners == 1
    assert abs(theirs / ours - 1) < 0.06


def test_summed_logits_are_read_as_they_were_trained():
    ensemble = study._initial(dial.SMOKE_POINTS[0], "joint-sum", 0, 10)
    ensemble.trained_by(study.SummedLogitsLoss())
    ensemble.readout = study._sum_of(ensemble, 10)
    x = torch.rand(4, 3, 8, 8)
    ensemble.eval()
    with torch.no_grad():
        torch.testing.assert_close(ensemble.predict_proba(x), ensemble(x).sum(0).softmax(-1))


def test_equivalence_needs_small_differences_and_little_noise():
    close, noisy, far = (np.array(values) for values in ([0.1, -0.2, 0.1], [2.0, -3.0, 1.0], [4.9, 5.0, 5.1]))
    assert tables.equivalence(close) < 0.05 < tables.equivalence(noisy) < tables.equivalence(far)


def test_the_rates_are_those_that_held_out_images_chose():
    record = read(ROOT / "results" / "image-rates.json")
    assert rates.chosen(record) == dict(study.RATES)


def rate_record(**losses):
    return {
        "config": {"smoke": False},
        "data": {
            f"{arm}-{rate}": {
                "config": {"data": "cifar10", "width": 8, "epochs": 10, "arm": arm, "learning_rate": rate},
                "data": {"vote": {"log_loss": loss}},
            }
            for arm, own in losses.items()
            for rate, loss in zip(rates.TRIED, own, strict=False)
        },
    }


def test_a_rate_is_changed_only_for_a_clearly_lower_log_loss():
    record = rate_record(independent=(0.7, 0.71, 0.9), single=(0.8, 0.7, 0.6))
    assert rates.chosen(record) == {("single", 8, 10): 0.03}
    assert [row[-1] for row in rates.STUDY.tables(record)[0].rows] == ["0.01", "0.03"]


def test_of_rates_that_tie_the_one_nearest_the_common_rate_is_taken():
    record = rate_record(independent=(0.9, 0.8, 0.603, 0.6), single=(0.9, 0.8, 0.61, 0.6))
    assert rates.chosen(record) == {("independent", 8, 10): 0.03, ("single", 8, 10): 0.1}


def test_learning_rates_are_tried_on_held_out_training_images_alone():
    images = ImageSets(None, smoke=True)["digits"]
    found = study.held_out(images)
    assert len(found.y_train) + len(found.y_test) == len(images.y_train)
    assert (found.x_test == images.x_train[-len(found.y_test) :]).all()
    assert (found.x_train == images.x_train[: len(found.y_train)]).all()
