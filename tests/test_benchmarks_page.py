"""The figures of docs/benchmarks.md and docs/selection.md are those of the committed results."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def result(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def row(words):
    """Return the measured figure in the row that holds the words."""
    line = next(line for line in PAGE.splitlines() if words in line)
    return line.split("|")[3].strip()


def test_training_on_the_cpu():
    found = result("bench_training")
    times = found["times_as_long_as_stacked"]
    for words, name, goal in (
        ("TorchEnsemble 0.2.0 against", "TorchEnsemble 0.2.0", 8),
        ("a plain loop", "plain loop", 4),
        ("BaggingClassifier(MLPClassifier)", "scikit-learn bagging", 5),
    ):
        assert row(words) == f"{times[name]:.1f} times"
        assert times[name] > goal
    assert row("the diversity loss against") == f"{found['diversity_over_independent']:.2f} times"
    assert found["diversity_over_independent"] <= 1.10
    over, before = (found[f"correlation_over_independent{end}"] for end in ("", "_before_the_read_out"))
    assert row("the correlation loss against") == f"{over:.2f} times ({before:.2f} without the read-out)"
    assert over <= 1.25
    assert f"takes {1000 * found['read_out_seconds']:.0f} ms" in PAGE


def test_training_on_the_gpu():
    found = result("bench_training_gpu")
    assert row("the loss alone on the GPU") == f"{found['loss_alone']['ratio']:.0f} times"
    assert row("three ResNet-18s") == f"{found['joint_against_independent']['ratio']:.2f} times"
    nets, times = (found["one_program"][key] for key in ("nets_per_second_together", "ratio"))
    assert row("1,200 small networks") == f"{nets:,.0f} networks a second, {times:.0f} times one at a time"
    loss = (ROOT / "docs" / "loss.md").read_text(encoding="utf-8")
    assert (
        f"takes {1000 * found['loss_alone']['ours_seconds']:.1f} ms, {found['loss_alone']['ratio']:.0f} times less"
        in loss
    )
    assert f"jointly takes {found['joint_against_independent']['ratio']:.2f} times as long" in loss


def test_compiled_networks():
    found = result("bench_compile_gpu")["data"].values()
    *ratios, last = (f"{one['ratio']:.2f}" for one in found)
    *seconds, longest = (f"{one['compiling_seconds']:.0f}" for one in found)
    told = row("as they are against compiled")
    assert told.startswith(f"{', '.join(ratios)} and {last} times as long")
    assert told.endswith(f"after {', '.join(seconds)} and {longest} s to compile")
    epochs = sorted(one["epochs_to_pay"] for one in found)
    page = (ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8")
    assert f"after {epochs[0]:.0f} to {epochs[-1]:.0f} epochs of one size" in page


def test_theory_measures_and_decorate():
    assert row("vote accuracy on a 1000 x 1000 grid") == f"{result('bench_theory')['seconds']['mean']:.2f} s"
    found = result("bench_measures")["pairwise"]
    assert row("against `numpy.corrcoef`") == f"{found['all_pairwise_over_corrcoef']['median']:.1f} times"
    assert row("against DESlib") == "over 1,000 times"
    assert min(found["deslib_over_each_alone"].values()) > 1000
    assert row("Weka's DECORATE") == f"{result('bench_decorate')['speed']['ratio']:.1f} times"
    steps = {(one["width"], one["how"]): one["step"] for one in result("bench_convnets_gpu")["data"]}
    ratio = steps[32, "net after net"] / steps[32, "grouped, channels last"]
    assert row("24 ConvNets of width 32") == f"{ratio:.1f} times as long"
    found = result("bench_stacked_convs")["networks"]
    ratios = {
        one["batch"]: one["ratio"] for one in found["data"] if (one["width"], one["learners"]) == (8, 10)
    }
    assert found["threads"] == 1
    assert row("with batches of 16") == f"{1 / ratios[16]:.1f} times as long"
    assert row("with batches of 512") == f"{ratios[512]:.1f} times as long"


def test_large_assessments():
    found = result("bench_assess")
    *seconds, last = (f"{one['seconds']:.0f}" for one in found["rows"])
    most = max(one["extra_bytes"] for one in found["rows"]) / 1e9
    assert row("1,000,000 int8 labels") == (
        f"{', '.join(seconds)} and {last} s at a quarter, a half and all; {most:.2f} GB"
    )
    complete, missing, *_ = (f"{one['seconds']:.1f} s" for one in found["panels"])
    told = row("`assess`, 50 learners x 100,000")
    assert told == f"{complete}; {missing} with a fifth of the votes missing"


def test_many_learners_and_tables():
    one = result("bench_assess")["wide"][-1]
    size = f"{one['json_bytes'] / 1e6:.0f} MB"
    told = f"{one['cpu_seconds']:.0f} s; {one['json_cpu_seconds']:.0f} s more as JSON ({size})"
    assert row("`assess`, 3,000 learners") == told
    assert one["cpu_seconds"] < 30


def test_growth_with_the_number_of_learners():
    seconds = result("bench_training")["seconds_by_learners"]
    memory = {str(one["learners"]): one["peak_bytes"] for one in result("bench_training_gpu")["growth"]}
    cells = [f"| {n} | {seconds[n]:.2f} | {memory[n] / 1e6:.0f} |" for n in seconds]
    assert "\n".join(cells) in PAGE


def test_selection_against_its_rivals():
    found = result("bench_selection")["judged"]
    page = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8")
    methods = ("whole pool", "best learner", "caruana", "stacking", "select", "select, within 1")
    for key, pool in found["pools"].items():
        cells = (
            f"{row['accuracy']:.1f} ({row['learners']:.1f})" for row in map(pool["methods"].get, methods)
        )
        assert f"| {key} | {pool['n_samples_chosen_on']} | {' | '.join(cells)} |" in page
    rows = [line for line in page.splitlines() if ", labels |" in line or ", probabilities |" in line]
    assert len(rows) == len(found["pools"]) >= 10
    summary = found["summary"]["all"]
    words = {"caruana": "Caruana's selection", "stacking": "non-negative stacking"}
    for rival, name in words.items():
        for ours, option in (("select", "select"), ("select, within 1", "select(within=1)")):
            one = summary[ours][rival]
            points = f"{one['difference']:+.2f} points ({one['low']:+.2f} to {one['high']:+.2f})"
            learners = f"{one['learners']:.1f} learners for {one['learners_of_rival']:.1f}"
            assert f"| `{option}` | {name} | {points} | {learners} | {one['mean_share']:.2f} |" in page
        one = summary["select"][rival]
        points = f"{one['difference']:+.2f} points ({one['low']:+.2f} to {one['high']:+.2f})"
        learners = f"({one['learners']:.1f} for {one['learners_of_rival']:.1f})"
        shares = f"{one['mean_share']:.2f} of the learners in the mean over pools {learners}"
        assert row(f"against {name}") == f"{points}, {shares}"
        assert one["high"] > 0  # no worse
    assert f"{summary['estimate_minus_held_out']:+.2f} points from" in page
    assert f"{summary['fitted_minus_held_out']:+.2f} points" in page


def test_the_share_of_mutants_that_tests_notice():
    found = result("mutation")
    total = found["total"]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert (
        f"Of {total['sampled']} mutants drawn at random, the tests notice {100 * total['score']:.0f} % of the "
        f"{total['sampled'] - total['equivalent']} that differ" in page
    )
    assert f"It was {100 * found['first']['score']:.0f} % before" in page
    assert total["score"] >= 0.95


def test_the_search_of_settings():
    (found,) = result("bench_search")["tables"]
    errors = [found[name]["error_percent"] for name in ("ours", "catboost")]
    turns = sorted(a / b for a, b in zip(found["ours"]["turns"], found["catboost"]["turns"], strict=True))
    spread = f"{turns[0]:.1f} to {turns[-1]:.1f} in three turns"
    counts = [round(10 * error) for error in errors]  # of 1,000 test rows
    told = (
        f"{found['ratio']:.1f} times ({spread}); {counts[0]} against {counts[1]} errors on 1,000 test rows of one made "
        "table are no difference"
    )
    assert counts == pytest.approx([10 * error for error in errors])
    assert row("a search of 60 settings") == told
    (gpu,) = result("bench_search_gpu")["tables"]
    seconds = "{:.0f} against {:.0f} s".format(*(gpu[name]["seconds"] for name in ("ours", "catboost")))
    assert row("the networks on one H200") == f"{gpu['ratio']:.1f} times, {seconds}"
    assert row("the search with its defaults") == f"{found['default']['seconds']:.0f} s on two cores"
