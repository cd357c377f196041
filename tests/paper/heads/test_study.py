"""Heads on one trunk: jobs that are kept, and the table and figure of the record."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from counterpoint.records import NONE, mean, number
from paper import reproduce
from paper.__main__ import main
from paper.convnets.dial_tables import interval
from paper.heads import study, tables, training
from paper.heads.training import ONE, Point, Trainer


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def names(seeds=None, *, smoke=True):
    return [f"{point.name}-s{seed}" for point, seed in study.plan(seeds, smoke=smoke)]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    assert main(["image-heads", "--smoke", "--out", str(folder)]) == 0
    return folder


def test_a_smoke_run_writes_record_page_and_picture(smoke):
    record = read(smoke / "image-heads.json")
    assert list(record["data"]) == names()
    page = (smoke / "image-heads.md").read_text(encoding="utf-8")
    assert page == study.STUDY.in_markdown(record)
    assert "**Smoke run. digits, heads on one ConvNet, test images**" in page
    for end in ("png", "svg"):
        assert (smoke / f"image-heads.{end}").stat().st_size > 1000


def test_a_job_says_what_its_result_depends_on(smoke):
    data = read(smoke / "image-heads.json")["data"]
    frozen, tuned = (data[f"{mode}-hidden-k2-0.9-s0"]["config"] for mode in ("frozen", "tuned"))
    shared = {
        "data": "digits",
        "network": "convnet",
        "start": "from scratch",
        "checksum": 0,
        "size": 16,
        "width": 4,
    }
    heads = {"kind": "hidden", "k": 2, "arm": "0.9", "seed": 0, "hidden": 8, "batch_size": 25, "epochs": 1}
    rates = {"learning_rates": [0.001, 0.003, 0.01], "precision": "float32"}
    assert frozen == {**shared, **heads, "mode": "frozen", **rates}
    assert tuned == {**shared, **heads, "mode": "tuned", "learning_rate": 1e-3, "trunk_learning_rate": 1e-4}
    assert "hidden" not in data["frozen-linear-k1-one-s0"]["config"]


def test_the_plan_has_what_is_compared_and_the_main_things_first():
    found = list(dict.fromkeys(name.rsplit("-", 2)[0] for name in names(smoke=False)))
    assert found == [
        "frozen-hidden-k8",
        "frozen-linear-k8",
        "frozen-linear-k1",
        "frozen-hidden-k32",
        "frozen-linear-k32",
        "tuned-hidden-k8",
        "tuned-linear-k8",
        "tuned-linear-k1",
        "tuned-hidden-k32",
        "tuned-linear-k32",
    ]
    for seeds in (2, 3):
        assert {seed for _, seed in study.plan(seeds)} == set(range(seeds))
    assert list(study.plan()) == list(study.plan(3))
    for mode in ("frozen", "tuned"):
        dials = {point.arm for point, _ in study.plan() if point.mode == mode}
        assert dials == {"0", "0.5", "0.9", "1", ONE}


def test_an_interrupted_run_resumes_and_computes_features_once(tmp_path, monkeypatch):
    expected = [name for name in names() if name.startswith("frozen-hidden-k2")]
    done, work = [], Trainer.run

    def stopped(trainer, point, seed):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(point.name)
        return work(trainer, point, seed)

    monkeypatch.setattr(Trainer, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce("image-heads", tmp_path, smoke=True, parts="frozen-hidden-k2")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "image-heads").glob("*.json")}
    assert {path.stem for path in kept} == set(expected[:2])

    again, computed = [], []
    monkeypatch.setattr(Trainer, "run", lambda *given: again.append(given[1].name) or work(*given))
    features = training.compute_features
    monkeypatch.setattr(training, "compute_features", lambda *a, **k: computed.append(1) or features(*a, **k))
    reproduce("image-heads", tmp_path, smoke=True, parts="frozen-hidden-k2")
    assert [f"{name}-s0" for name in again] == expected[2:]
    assert computed == [1]
    assert list(read(tmp_path / "image-heads.json")["data"]) == expected
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"smoke": True, "weights": Path("w")}, "`--weights` has no meaning with `--smoke`"),
        ({"smoke": True, "data": Path("d")}, "`--data` has no meaning with `--smoke`"),
        (
            {"smoke": True, "parts": "nothing"},
            "`parts` must be beginnings of names, of frozen, tuned; got 'nothing'",
        ),
        (
            {"weights": Path(__file__).parent},
            r"`weights` must be a folder with one or more of resnet18\.safetensors",
        ),
    ],
)
def test_options_without_meaning_are_refused_before_any_work(options, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        reproduce("image-heads", tmp_path, **options)
    assert not list(tmp_path.iterdir())


def piece(mode, kind, k, arm, seed, error):
    """Return a job with known scores."""
    scores = {"error": error, "log_loss": 4 * error, "brier_score": error, "calibration_error": error / 10}
    config = {**Point(mode, kind, k, arm)._asdict(), "seed": seed, "data": "cifar100", "network": "resnet18"}
    found = {"learner_error": 1.25 * error, "r_ll": None if arm == ONE else 0.5, "n_parameters": 1000 * k}
    return {"config": config, "data": {"vote": scores, **found}}


def record_of(*pieces):
    return {"config": {"smoke": False}, "data": {f"job-{n}": one for n, one in enumerate(pieces)}}


RECORD = record_of(
    piece("frozen", "hidden", 8, "0", 0, 0.30),
    piece("frozen", "hidden", 8, ONE, 0, 0.25),
    piece("frozen", "hidden", 8, "0", 1, 0.34),
    piece("frozen", "hidden", 8, "0.9", 0, 0.20),
    piece("frozen", "hidden", 32, "0.9", 0, 0.10),
    piece("frozen", "linear", 1, ONE, 0, 0.40),
    piece("frozen", "linear", 1, ONE, 1, 0.44),
    piece("frozen", "linear", 8, "1", 0, 0.36),
    piece("tuned", "hidden", 8, "0.9", 0, 0.16),
)


def test_the_numbers_of_the_table_follow_from_the_record():
    grid = tables.grid(RECORD)
    assert grid.title == "CIFAR-100, heads on one ResNet-18, test images"
    assert grid.headings[:6] == ["trunk", "heads", "k", "dial", "error %", "log-loss"]
    # 30 and 34 % have the mean 32 and the standard deviation 2.83
    assert grid.rows == [
        ["frozen", "hidden", "8", "0", "32.00 ± 2.83", "1.280 ± 0.113", "3.2 ± 0.3", "40.0 ± 3.5", "0.50",
         "8,000", "2"],
        ["frozen", "hidden", "8", "0.9", "20.00", "0.800", "2.0", "25.0", "0.50", "8,000", "1"],
        ["frozen", "hidden", "8", "one head", "25.00", "1.000", "2.5", "31.2", NONE, "8,000", "1"],
        ["frozen", "hidden", "32", "0.9", "10.00", "0.400", "1.0", "12.5", "0.50", "32,000", "1"],
        ["frozen", "linear", "1", "one head", "42.00 ± 2.83", "1.680 ± 0.113", "4.2 ± 0.3", "52.5 ± 3.5", NONE,
         "1,000", "2"],
        ["frozen", "linear", "8", "1", "36.00", "1.440", "3.6", "45.0", "0.50", "8,000", "1"],
        ["tuned", "hidden", "8", "0.9", "16.00", "0.640", "1.6", "20.0", "0.50", "8,000", "1"],
    ]  # fmt: skip


def test_the_figure_has_a_panel_for_each_trunk_and_kind_and_a_dashed_line_for_one_head():
    hidden, linear, tuned = tables.draw(RECORD).axes
    titles = [ax.get_title(loc="left") or ax.get_title() for ax in (hidden, linear, tuned)]
    assert titles == [
        "Frozen trunk, one hidden layer",
        "Frozen trunk, linear",
        "Fine-tuned trunk, one hidden layer",
    ]
    eight, thirty_two = hidden.containers
    assert eight.lines[0].get_xydata().tolist() == [[0.0, 32.0], [0.9, 20.0]]
    assert thirty_two.lines[0].get_xydata().tolist() == [[0.9, 10.0]]
    low, high = eight.lines[2][0].get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(2.828, abs=1e-3)
    for ax, errors in ((hidden, [25.0]), (linear, [42.0]), (tuned, [])):
        assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"] == pytest.approx(
            errors
        )
    colours = [ax.containers[0].lines[0].get_color() for ax in (hidden, linear, tuned)]
    assert len(set(colours)) == 1


def test_what_the_page_says_of_heads_is_in_the_record():
    root = Path(__file__).parents[3]
    page = (root / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8")
    section = " ".join(page.partition("## Many heads")[2].partition("<!-- image-heads")[0].split())
    found = tables.runs_by_arm(read(root / "results" / "image-heads.json"))

    def error(key, arm):
        return mean(100 * np.array([run["vote"]["error"] for run in found[key][arm]]), 2)

    def log_loss(key, arm):
        return mean([run["vote"]["log_loss"] for run in found[key][arm]], 3)

    def ends(key):
        errors = sorted(error(key, arm) for arm in found[key] if arm != ONE)
        return f"{errors[0]} to {errors[-1]} %"

    def difference(key, ours, theirs, measure="error"):
        values = [np.array([run["vote"][measure] for run in found[key][arm]]) for arm in (ours, theirs)]
        change = values[0] - values[1]
        ends = "[{}, {}]".format(*(number(100 * end, ".2f") for end in interval(change)))
        return number(100 * change.mean(), ".2f"), ends

    frozen, many, tuned, more = [(mode, "hidden", k) for mode in ("frozen", "tuned") for k in (8, 32)]
    assert (
        f"err on {error(frozen, '0')} %, one head of eight times the width on {error(frozen, ONE)} %"
        in section
    )
    assert f"({log_loss(frozen, '0')} against {log_loss(frozen, ONE)})" in section
    assert "({} points more {})".format(*difference(frozen, ONE, "0")) in section
    assert f"do not tell apart {difference(many, ONE, '0')[1]}" in section
    assert (
        "changes the error of eight heads by {} points {}".format(*difference(frozen, "0.5", "0")) in section
    )
    geometric = mean([run["geometric"]["log_loss"] for run in found[frozen]["0"]], 3)
    assert f"independent heads has a log-loss of {geometric}" in section
    for dial, words in (("0.5", "{} at 0.5 [{}, {}]"), ("1", "{} at 1 [{}, {}]")):
        own = [run["vote"]["log_loss"] for run in found[frozen][dial]]
        rest = np.subtract(own, [run["geometric"]["log_loss"] for run in found[frozen]["0"]])
        assert words.format(*(number(v, ".3f") for v in (rest.mean(), *interval(rest)))) in section
    alike = [mean([run["r_ll"] for run in found[key]["0"]], 2) for key in (tuned, frozen)]
    assert "(r_LL = {} against {})".format(*alike) in section
    for key in (tuned, more):
        ours, theirs = (np.array([run["vote"]["log_loss"] for run in found[key][arm]]) for arm in ("0", ONE))
        assert interval(theirs - ours)[0] > 0
    rates = {
        run["learning_rate"]
        for key in found
        if key[0] == "frozen"
        for runs in found[key].values()
        for run in runs
    }
    assert rates == {min(study.SETTINGS.learning_rates)}
    assert f"it is {error(many, '0')} against {error(many, ONE)} %" in section
    assert f"err on {error(tuned, '0')} %, one head of their size on {error(tuned, ONE)} %" in section
    assert f"log-losses of {log_loss(tuned, '0')} and {log_loss(tuned, ONE)}" in section
    assert f"on {error(more, '0')} %, one of their size on {error(more, ONE)} %" in section
    assert f"({log_loss(more, '0')} and {log_loss(more, ONE)})" in section
    assert f"raises the log-loss to {log_loss(frozen, '0.5')}" in section
    assert f"all dials err about as often ({ends(tuned)} with eight heads, {ends(more)} with 32)" in section
    alone = 100 * np.mean([run["learner_error"] for run in found[tuned]["1"]])
    assert f"a single one of eight heads errs on {alone:.1f} %" in section
    few, most = (ends(("tuned", "linear", k)) for k in (8, 32))
    one = error(("tuned", "linear", 1), ONE)
    assert f"eight of them err on {few}, 32 on {most}, and one on {one} %" in section
    for k, dial in product((8, 32), ("0", "0.5", "0.9", "1")):
        apart = ("tuned", "linear", k), ("tuned", "linear", 1)
        losses, errors = (
            np.subtract(
                *(
                    [run["vote"][m] for run in found[key][arm]]
                    for key, arm in zip(apart, (dial, ONE), strict=True)
                )
            )
            for m in ("log_loss", "error")
        )
        assert interval(losses)[1] < 0
        if (k, dial) == (8, "0"):
            low, high = (number(-100 * end, ".2f") for end in reversed(interval(errors)))
            assert f"({-100 * errors.mean():.2f} points lower [{low}, {high}])" in section
    assert {len(runs) for arms in found.values() for runs in arms.values()} == {3}
    assert sum(map(len, found.values())) == len({point for point, _ in study.plan()})
