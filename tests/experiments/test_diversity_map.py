"""The map of diversity: the batched networks, the parts of a run, and what is read from a record."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.cli import main
from counterpoint.datasets import load
from counterpoint.estimators._batched import Fold, Group, Schedule, train_groups
from counterpoint.experiments import _map_analysis, _map_figures, _map_tables, diversity_map, reproduce
from counterpoint.experiments._map_analysis import PREDICTORS, Map
from counterpoint.experiments._perceptrons import Perceptrons, Steps, Task, measure, train
from counterpoint.experiments.diversity_map import SMOKE, SMOKE_DATA, Grid
from counterpoint.experiments.forests import shared_vote_accuracy
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.training import CorrelationLoss, IndependentLoss, JointLoss

ROOT = Path(__file__).parents[2]
RECORD, PAGE = ROOT / "results" / "diversity-map.json", ROOT / "docs" / "when-does-diversity-pay.md"
DIVERSITIES = (0.0, 0.9)
K, N, SIZES, STEPS = 2, 3, (4, 5, 3), Steps(15, 0.03, 0.01)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The folder of a smoke run, and what the command printed."""
    folder = tmp_path_factory.mktemp("smoke")
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["reproduce", "diversity-map", "--smoke", "--out", str(folder)]) == 0
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def record(smoke):
    return json.loads((smoke[0] / "diversity-map.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def task():
    """Iris in two folds."""
    x, y, trained = diversity_map.prepare(load("iris"), SMOKE, 0)
    return Task(*map(torch.as_tensor, (x, y, trained)))


@pytest.fixture(scope="module")
def trained(task):
    nets = Perceptrons(K, 2 + len(DIVERSITIES), N, SIZES, seed=3)
    train(nets, task, DIVERSITIES, STEPS)
    return nets


def as_modules(nets, fold, loss):
    """Return the networks of a group as ordinary modules."""
    found = []
    for learner in range(N):
        net = nn.Sequential(nn.Linear(SIZES[0], SIZES[1]), nn.ReLU(), nn.Linear(SIZES[1], SIZES[2]))
        at = (fold, loss, learner)
        values = (nets.weight[at], nets.bias[at][:, 0], nets.out_weight[at], nets.out_bias[at][:, 0])
        with torch.no_grad():
            for parameter, value in zip(net.parameters(), values, strict=True):
                parameter.copy_(value)
        found.append(net)
    return found


def test_groups_of_a_fold_start_from_the_same_weights_as_linear_layers_do():
    nets = Perceptrons(2, 3, 400, (9, 4, 3), seed=0)
    for parameter, inputs in ((nets.weight, 9), (nets.bias, 9), (nets.out_weight, 4), (nets.out_bias, 4)):
        assert (parameter[:, :1] == parameter).all()
        assert not (parameter[0] == parameter[1]).any()
        bound = inputs**-0.5  # of nn.Linear: uniform within one over the root of the inputs
        assert parameter.abs().max() <= bound
        assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_the_program_trains_as_the_batched_trainer_of_the_estimators(task, trained):
    start = Perceptrons(K, 2 + len(DIVERSITIES), N, SIZES, seed=3)
    losses = [IndependentLoss(), JointLoss(), *map(CorrelationLoss, DIVERSITIES)]
    folds = []
    for k in range(K):
        rows = task.train[k] > 0
        folds.append(Fold(task.x[k].T[rows], task.y[rows], None, as_modules(start, k, 0), seed=0))
    groups = [Group(fold, loss) for fold in folds for loss in losses]
    program = train_groups(groups, Schedule(STEPS.n_steps, 1, STEPS.learning_rate, STEPS.weight_decay))
    theirs = program.logits([task.x[k].T for k in range(K) for _ in losses])
    with torch.no_grad():
        ours = trained(task.x).flatten(0, 1)
    torch.testing.assert_close(ours, torch.stack(theirs), rtol=0.01, atol=0.01)
    held = [task.x[k].T[task.train[k] == 0] for k in range(K) for _ in losses]
    truth = [task.y[task.train[k] == 0] for k in range(K) for _ in losses]
    wrong = [(p.mean(0).argmax(-1) != y).sum() for p, y in zip(program.proba(held), truth, strict=True)]
    assert (measure(trained, task).soft.flatten() - torch.stack(wrong)).abs().max() <= 1


def test_rows_that_a_fold_tests_take_no_part_in_its_training(task, trained):
    x, y = task.x.clone(), task.y.clone()
    x[0][:, task.train[0] == 0] += 7
    nets = Perceptrons(K, 2 + len(DIVERSITIES), N, SIZES, seed=3)
    train(nets, Task(x, y, task.train), DIVERSITIES, STEPS)
    for ours, theirs in zip(nets.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(ours[0], theirs[0])


def test_what_is_measured_is_what_the_library_measures(task, trained):
    found = measure(trained, task)
    with torch.no_grad():
        proba = trained(task.x)[0, 0].softmax(-1).double().numpy()  # independent training needs no read-out
    rows = task.train[0].numpy() > 0
    y = task.y.numpy()
    labels = proba.argmax(-1)
    assert found.soft[0, 0] == (proba.mean(0).argmax(-1) != y)[~rows].sum()
    assert found.hard[0, 0].item() == pytest.approx(
        (1 - shared_vote_accuracy(y[~rows], labels[:, ~rows])) * (~rows).sum(), abs=1e-4
    )
    assert found.member[0, 0].item() == pytest.approx((labels == y)[:, rows].mean())
    assert found.vote[0, 0].item() == pytest.approx((proba.mean(0).argmax(-1) == y)[rows].mean())
    pairs = learner_learner_correlation(proba[:, rows])[np.triu_indices(N, 1)]
    assert found.r_tl[0, 0].item() == pytest.approx(
        truth_learner_correlation(y[rows], proba[:, rows]).mean(), abs=1e-5
    )
    assert found.r_ll[0, 0].item() == pytest.approx(pairs.mean(), abs=1e-5)


def test_pieces_do_not_change_what_is_measured(task, trained, monkeypatch):
    whole = measure(trained, task)
    monkeypatch.setattr("counterpoint.experiments._perceptrons._MOST_NUMBERS", 1)
    for one, other in zip(whole, measure(trained, task), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["iris", "labor"])  # numbers; nominal columns with gaps
def test_every_row_is_tested_once_in_each_repeat_and_scaled_by_the_others(name):
    table = load(name)
    x, y, trained = diversity_map.prepare(table, Grid(folds=3, rows=2 * len(table.y)), 0)
    assert x.shape[0] == len(trained) == 6
    np.testing.assert_array_equal((1 - trained).sum(axis=0), 2)
    assert len(np.unique(trained, axis=0)) == 6
    for seen, rows in zip(x, trained > 0, strict=True):
        np.testing.assert_allclose(seen[:, rows].mean(axis=1), 0, atol=1e-5)
        assert set(seen[:, rows].std(axis=1).round(4).tolist()) <= {0.0, 1.0}
    assert (np.unique(table.y)[y] == table.y).all()


def test_a_run_goes_on_after_the_parts_it_finds(smoke, record, tmp_path, monkeypatch):
    parts = (smoke[0] / diversity_map.PARTS).read_text(encoding="utf-8").splitlines()
    assert len(parts) == len(SMOKE_DATA) * len(SMOKE.learners) * len(SMOKE.hidden)
    cut_off = parts[-1][:50]
    (tmp_path / diversity_map.PARTS).write_text("\n".join([*parts[:-1], cut_off]) + "\n", encoding="utf-8")
    ran = []
    original = diversity_map.run_part
    monkeypatch.setattr(diversity_map, "run_part", lambda *a, **k: ran.append(a[:3]) or original(*a, **k))
    monkeypatch.setattr(diversity_map, "write_findings", lambda *_: [])
    reproduce("diversity-map", tmp_path, smoke=True)
    assert ran == [("glass", 5, 16)]
    again = json.loads((tmp_path / "diversity-map.json").read_text(encoding="utf-8"))
    for one, other in zip(record["data"], again["data"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    settings = {**json.loads(parts[0])["settings"], "seed": 1}  # another seed is another run
    assert diversity_map._read_parts(tmp_path / diversity_map.PARTS, settings) == []


def test_a_table_whose_part_fails_is_left_out_of_the_record(tmp_path, monkeypatch):
    original = diversity_map.run_part

    def run_part(name, n_learners, *arguments, **options):
        if name == "labor" and n_learners == 5:
            raise RuntimeError("out of memory")
        return original(name, n_learners, *arguments, **options)

    monkeypatch.setattr(diversity_map, "run_part", run_part)
    monkeypatch.setattr(diversity_map, "write_findings", lambda *_: [])
    with pytest.warns(UserWarning, match=r"labor, 5 learners of \d+: out of memory"):
        (path,) = diversity_map.reproduce(tmp_path, smoke=True)
    assert json.loads(path.read_text(encoding="utf-8"))["config"]["data"] == ["iris", "glass"]


def test_a_run_without_a_complete_table_says_so(tmp_path, monkeypatch):
    def run_part(*arguments, **options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(diversity_map, "run_part", run_part)
    with (
        pytest.warns(UserWarning, match="out of memory"),
        pytest.raises(RuntimeError, match="no table has all its parts"),
    ):
        diversity_map.reproduce(tmp_path, smoke=True)


def test_the_tables_of_a_folder_come_after_the_embedded_ones(tmp_path):
    (tmp_path / "more").mkdir()
    for name in ("splice", "anneal", "unknown"):
        (tmp_path / "more" / f"{name}.csv").touch()
    assert diversity_map.tables(tmp_path) == (*diversity_map.tables(None), "anneal", "splice")
    with pytest.raises(ValueError, match="`data` must be a folder"):
        diversity_map.tables(tmp_path / "none")


def test_a_record_says_what_made_it(record):
    assert record["config"]["smoke"] is True
    assert record["config"]["data"] == list(SMOKE_DATA)
    assert "torch" in record["versions"]
    for part in record["data"]:
        assert list(part["wrong"]["soft"]) == ["independent", "joint", "0", "0.9"]
        wrong = np.array(list(part["wrong"]["hard"].values()))
        assert (wrong <= part["rows"]).all()
    iris = record["data"][0]
    assert (iris["n_learners"], iris["hidden"], iris["n_parameters"]) == (3, 1, 3 * (4 + 1 + 3 + 3))


def made_up(gain, train=None):
    """Return a map with these gains (S, L, H, C)."""
    shape = gain.shape[:3]
    learners, hidden = ([2, 3, 5, 7][:n] for n in shape[1:])
    losses = ["independent", "joint", "0", "0.9"][: gain.shape[3]]
    values = {key: np.zeros(shape) for key in PREDICTORS} | (train or {})
    names = [str(s) for s in range(shape[0])]
    return Map("soft", names, learners, hidden, losses, np.exp(-gain), gain, values, [], 10)


def test_gains_are_logarithms_of_errors_with_half_a_row_added():
    part = {
        "data": "a",
        "n_learners": 5,
        "hidden": 2,
        "rows": [10, 10, 10, 10],  # two passes over twenty rows
        "wrong": {"soft": {"independent": [4, 3, 2, 3], "joint": [0, 0, 0, 0], "0.5": [1, 1, 2, 0]}},
        "train": {key: {"independent": 0.5} for key in PREDICTORS if key != "gap"},
    }
    config = {"data": ["a"], "learners": [5], "hidden": [2], "folds": 2}
    found = _map_analysis.read_map({"config": config, "data": [part]})
    np.testing.assert_allclose(found.error[0, 0, 0], [12 / 40, 0, 4 / 40])
    np.testing.assert_allclose(found.gain[0, 0, 0], [0, np.log(6.5 / 0.5), np.log(6.5 / 2.5)])
    np.testing.assert_allclose(found.folds[0][0, 0, 0], [0.4, 0.3, 0.2, 0.3])
    assert found.diversities == [0.5]


def test_a_table_has_no_say_in_its_own_diversity():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=(5, 2, 3, 6))
    chosen = _map_analysis.choose(gain)
    other = gain.copy()
    other[2] = rng.normal(size=other[2].shape)
    np.testing.assert_array_equal(_map_analysis.choose(other)[2], chosen[2])
    for s, h in np.ndindex(5, 3):
        rest = np.delete(gain, s, axis=0)[:, :, h].mean(axis=(0, 1))
        assert chosen[s, 0, h] == chosen[s, 1, h] == 2 + rest[2:].argmax()


def test_the_threshold_takes_the_largest_sum_of_gains():
    rng = np.random.default_rng(1)
    for _ in range(50):
        values, gains = rng.integers(5, size=12).astype(float), rng.normal(size=12)
        cut = _map_analysis.threshold(values, gains)
        reached = gains[_map_analysis.takes(values, cut)].sum()
        tried = [gains[values < t].sum() for t in range(7)] + [gains[values > t].sum() for t in range(-1, 6)]
        assert reached == pytest.approx(max(tried))


def test_a_perfect_predictor_is_found_and_a_blind_one_is_not():
    rng = np.random.default_rng(2)
    gain = rng.normal(size=(6, 4, 4))
    full = np.stack([np.zeros_like(gain), np.zeros_like(gain), gain, gain], -1)
    found = made_up(full, {"member": -gain, "r_tl": rng.normal(size=gain.shape)})
    member, blind = (_map_analysis.judge(name, found, gain) for name in ("member", "r_tl"))
    assert (member.spearman, member.within, member.auc) == (-1, pytest.approx(-1), 1)
    assert member.low
    assert member.pays == f"below {member.threshold:.3f}"
    assert member.hits / member.n > 0.95
    assert _map_analysis.reduction(member.gain) > 0.9 * _map_analysis.reduction(np.maximum(gain, 0).mean())
    assert blind.auc < 0.65
    assert blind.gain < member.gain / 2


@pytest.mark.parametrize(("sign", "words"), [(1, "always"), (-1, "never")])
def test_a_rule_without_a_threshold_is_always_or_never(sign, words):
    gain = sign * np.ones((3, 2, 2))
    found = made_up(
        np.repeat(gain[..., None], 4, -1), {"member": np.random.default_rng(0).uniform(size=gain.shape)}
    )
    assert _map_analysis.judge("member", found, gain).pays == words


def test_only_differences_beyond_the_spread_of_the_folds_count():
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.2, 0.3, size=10)
    rates = np.stack([noise, noise, noise - 0.1, noise + 0.1 + rng.normal(0, 0.01, 10), noise[::-1]])
    found = made_up(np.zeros((1, 1, 1, 4)))._replace(folds=[rates[None, None]])
    assert [_map_analysis.significant(found, c).item() for c in range(5)] == [0, 0, 1, -1, 0]


def test_budgets_are_cells_with_about_as_many_hidden_units():
    for units, cells in _map_analysis.BUDGETS.items():
        assert all(0.7 < n * h / units < 1.3 for n, h in cells)
    assert _map_analysis.budgets(made_up(np.zeros((1, 4, 4, 3)))) == {}


def test_tables_hold_the_numbers_of_the_record(record):
    found = _map_analysis.read_map(record)
    text = _map_tables.markdown(record)
    assert text.startswith("Smoke run. 3 tables (iris, labor, glass)")
    for h, units in enumerate(found.hidden):
        errors = " | ".join(f"{100 * e:.2f}" for e in found.error[:, :, h].mean(axis=(0, 1)))
        assert f"| {units} | {errors} |" in text
    always = _map_analysis.shown_gains(found)["diversity 0.9"]
    assert f"| always diversity |  |  |  |  | {(always > 0).sum()} of {(always != 0).sum()} |" in text


def test_figures_show_the_numbers_of_the_record(record):
    found = _map_analysis.read_map(record)
    figure = _map_figures.draw_map(record)
    assert figure.get_suptitle().startswith("Smoke run: errors")
    heat = figure.axes[0].images[0].get_array()
    gains = found.gain[..., found.losses.index("0.9")].mean(axis=0)
    np.testing.assert_allclose(heat, 100 * (1 - np.exp(-gains)))
    curve = figure.axes[2].lines[0]
    np.testing.assert_allclose(curve.get_xdata(), [0, 0.9])
    left, right = _map_figures.draw_rule(record).axes
    assert sum(len(points.get_offsets()) for points in left.collections) == found.gain[..., 0].size
    assert right.get_title(loc="left") == "Hidden units in all"


def test_the_command_writes_record_tables_and_figures(smoke):
    folder, printed = smoke
    for name in ("diversity-map.json", "diversity-map.md", "diversity-map.png", "diversity-rule.svg"):
        assert str(folder / name) in printed
        assert (folder / name).stat().st_size > 0


@pytest.mark.skipif(not RECORD.exists(), reason="the record has not been made")
def test_the_page_says_what_the_record_says(tmp_path):
    (tmp_path / "images").mkdir()
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    _map_tables.fill_document(RECORD, page)
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert {path.name for path in (tmp_path / "images").iterdir()} == {
        "diversity-map.png",
        "diversity-rule.png",
    }
