"""The map of image ensembles: nets side by side train as alone, and the tables say what the records say."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from counterpoint import measures as library  # noqa: E402
from counterpoint.experiments import _image_map_tables as tables  # noqa: E402
from counterpoint.experiments import image_map, reproduce  # noqa: E402
from counterpoint.experiments._arms import ARMS, Course, Gate, gated  # noqa: E402
from counterpoint.experiments._convnets import Apart, Chunks, SideBySide, kernel_search, program  # noqa: E402
from counterpoint.experiments._image_part import Part, measures, run  # noqa: E402
from counterpoint.experiments._image_record import load_images  # noqa: E402
from counterpoint.experiments._tables import fill  # noqa: E402
from counterpoint.theory import critical_lambda  # noqa: E402
from counterpoint.training import CorrelationLoss, IndependentLoss, JointLoss, correlations  # noqa: E402
from counterpoint.training.gate import DiversityGate  # noqa: E402
from counterpoint.vision import backbone  # noqa: E402

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    made = [backbone("convnet", 10, width=2) for _ in range(6)]
    for parameter in (p for net in made for p in net.parameters()):
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return made


@pytest.fixture(scope="module")
def images():
    return load_images(None, smoke=True)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    reproduce("image-map", folder, smoke=True)
    return folder


@pytest.fixture(scope="module")
def record(smoke):
    return json.loads((smoke / "image-map.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("n_views", [1, 3, 6])
@pytest.mark.parametrize("channels", [1, 4, 32])
def test_nets_side_by_side_do_what_each_does_alone(nets, n_views, channels):
    torch.manual_seed(1)
    views = torch.randn(n_views, 4, 3, 8, 8)
    together, apart = SideBySide(nets, n_views, channels), Apart(nets, n_views)
    found, expected = together(views), apart(views)
    torch.testing.assert_close(found, expected)
    target = torch.randint(10, (4,))
    for logits in (found, expected):
        IndependentLoss()(logits, target).backward()
    first, last = together.layers[0].weight.grad, together.layers[-1].weight.grad
    torch.testing.assert_close(first, torch.cat([net.features[0].weight.grad for net in apart.nets]))
    torch.testing.assert_close(last, torch.stack([net.head.weight.grad.mT for net in apart.nets]))
    torch.testing.assert_close(together.eval()(views), apart.eval()(views))  # with running statistics


def test_several_narrow_nets_share_a_group_of_the_convolution(nets):
    groups = [layer.groups for layer in SideBySide(nets, channels=8).layers if hasattr(layer, "groups")]
    assert groups == [1, 2, 2, 3, 3, 6]  # of 2, 2, 2, 4, 4 and 8 channels a net


@pytest.mark.parametrize(("n_views", "size", "n_parts"), [(1, 4, 2), (3, 4, 3), (6, 4, 2), (6, 1, 6)])
def test_chunks_of_nets_do_what_each_does_alone(nets, n_views, size, n_parts):
    torch.manual_seed(1)
    views = torch.randn(n_views, 4, 3, 8, 8)
    chunks = Chunks(nets, n_views, size)
    assert len(chunks.parts) == n_parts  # of equal size, within a view or each with views of its own
    assert all(
        layer.groups == 1 for part in chunks.parts for layer in part.layers if hasattr(layer, "groups")
    )
    torch.testing.assert_close(chunks(views), Apart(nets, n_views)(views))


def test_wide_nets_run_one_after_the_other():
    assert isinstance(program([backbone("convnet", 2, width=64)]), Chunks)
    assert isinstance(program([backbone("convnet", 2, width=4)]), SideBySide)


def test_the_search_for_kernels_is_left_as_it_was():
    before = torch.backends.cudnn.benchmark
    with kernel_search():
        assert torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark is before


def test_layers_that_cannot_stand_side_by_side_are_refused():
    with pytest.raises(
        TypeError, match="`nets` must be of layers that can stand side by side; got LayerNorm"
    ):
        SideBySide([torch.nn.Sequential(torch.nn.LayerNorm(3)) for _ in range(2)])


@pytest.fixture
def batch():
    torch.manual_seed(2)
    return torch.randn(2, 4, 3, 40, 5, requires_grad=True), torch.randint(5, (2, 40))


def test_the_groups_have_the_losses_of_the_library(batch):
    logits, target = batch
    arms = [ARMS[name] for name in ("independent", "joint", "0.0", "0.9")]
    losses = [IndependentLoss(), JointLoss(), CorrelationLoss(0.0), CorrelationLoss(0.9)]
    expected = sum(loss(logits[s, a], target[s]) for s in range(2) for a, loss in enumerate(losses))
    torch.testing.assert_close(Course(arms, 2, 3)(logits, target, late=False), expected)


def test_an_arm_of_two_halves_changes_its_loss_in_the_middle(batch):
    logits, target = batch
    course = Course([ARMS["independent, then 0.9"]], 2, 3)
    for late, loss in ((False, IndependentLoss()), (True, CorrelationLoss(0.9))):
        expected = sum(loss(logits[s, 0], target[s]) for s in range(2))
        torch.testing.assert_close(course(logits[:, :1], target, late=late), expected)


def test_a_gate_blends_cross_entropy_and_correlation(batch):
    logits, target = batch
    logits = logits[:, :1] + torch.nn.functional.one_hot(target, 5)[:, None, None]
    r_tl, r_ll = correlations(logits.softmax(-1).detach(), target[:, None])
    share = DiversityGate(0.1, 0.9, groups=(2, 1))(r_tl, r_ll, 3)
    assert ((share > 0.1) & (share < 0.9)).all()
    own, together = (
        torch.stack([loss(logits[s, 0], target[s]) for s in range(2)])
        for loss in (IndependentLoss(), CorrelationLoss(0.9))
    )
    found = Course([gated(Gate(0.1, 0.9))], 2, 3)(logits, target, late=False)
    torch.testing.assert_close(found, torch.lerp(own, together, share[:, 0]).sum())


def test_the_error_penalty_has_the_gradient_of_its_formula(batch):
    logits, target = batch
    logits = (logits + 2 * torch.nn.functional.one_hot(target, 5)[:, None, None]).detach().requires_grad_()
    course = Course([ARMS["error 0.9"]], 2, 3)
    (found,) = torch.autograd.grad(course(logits[:, :1], target, late=False), logits)

    def plain(one, truth):  # the two correlations, pair by pair
        outputs = one.softmax(-1)
        columns = torch.cat([torch.nn.functional.one_hot(truth, 5)[None].float(), outputs])
        matrix = torch.stack([torch.corrcoef(columns[..., k]) for k in range(5)]).mean(0)
        return matrix[0, 1:].mean(), (matrix[1:, 1:].sum() - 3) / 6

    mu, loss = 0.9 * float(critical_lambda(3)), 0.0
    for s in range(2):
        r_tl, r_ll = plain(logits[s, 0], target[s])
        loss = loss - r_tl + mu * (r_ll - r_tl**2) / (1 - r_tl**2)  # design of the corrected vote formula
    (expected,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("own_views", [False, True])
def test_an_arm_trains_beside_others_as_it_does_alone(images, own_views):
    def part(*names):
        return Part(
            "some", 2, 2, tuple(ARMS[n] for n in names), (3,), 1, 100, own_views=own_views, batch_size=25
        )

    alone = run(part("0.9"), images, CPU)
    beside = run(part("independent", "0.9", "joint"), images, CPU)
    for name in ("soft", "member", "r_tl", "r_ll"):
        found, expected = (one["test"]["raw"][name] for one in (beside, alone))
        np.testing.assert_allclose(found[:, 1], expected[:, 0], atol=2e-3)
    np.testing.assert_allclose(
        beside["history"]["r_tl"][:, :, 1], alone["history"]["r_tl"][:, :, 0], atol=1e-3
    )


def test_held_out_images_are_not_trained_on(images):
    part = Part("some", 2, 2, (ARMS["independent"],), (0,), 1, None, 50, batch_size=25)
    other = copy.deepcopy(images)
    other.x_train[:50] = 0
    first, second = (run(part, one, CPU) for one in (images, other))
    np.testing.assert_array_equal(first["test"]["raw"]["r_tl"], second["test"]["raw"]["r_tl"])
    assert not np.array_equal(first["held_out"]["raw"]["r_tl"], second["held_out"]["raw"]["r_tl"])


def test_the_measures_are_those_of_the_library():
    torch.manual_seed(3)
    logits, target = torch.randn(1, 2, 5, 200, 4), torch.randint(4, (200,))
    found = measures(logits, target)
    for arm in range(2):
        proba, truth = logits[0, arm].softmax(-1).numpy(), target.numpy()
        votes = proba.argmax(-1)
        expected = {
            "r_tl": library.truth_learner_correlation(truth, proba),
            "r_ll": library.learner_learner_correlation(proba)[np.triu_indices(5, 1)],
            "soft": np.mean(proba.mean(0).argmax(-1) != truth),
            "member": np.mean(votes != truth),
            "error_correlation": np.corrcoef(votes == truth)[np.triu_indices(5, 1)].mean(),
        }
        for name, value in expected.items():
            assert found[name][0, arm] == pytest.approx(float(np.mean(value)), abs=1e-5), name
        counts = np.stack([np.sum(votes == k, axis=0) for k in range(4)])
        clear = np.sum(counts == counts.max(0), axis=0) == 1
        hard = np.mean(counts.argmax(0)[clear] != truth[clear]) * clear.mean()
        assert hard <= found["hard"][0, arm] <= hard + (~clear).mean()


def test_a_smoke_run_writes_every_part_and_its_tables(smoke, record):
    names = [part.name for part in image_map.plan(smoke / "image-map", 2, smoke=True)]
    assert list(record["data"]) == names
    assert {path.name for path in smoke.iterdir()} >= {"image-map.md", "image-map.png", "image-map.json"}
    piece = record["data"]["width-2"]
    soft = 100 * np.array(piece["data"]["test"]["raw"]["soft"])[:, 0]
    text = (smoke / "image-map.md").read_text(encoding="utf-8")
    assert f"| 2 | 2 | {soft.mean():.2f} ± {soft.std(ddof=1):.2f} |" in text


def test_a_finished_part_is_not_run_again_and_a_failing_one_loses_no_other(tmp_path, monkeypatch):
    from counterpoint.experiments import _image_part

    reproduce("image-map", tmp_path, smoke=True, parts="tune")
    kept = (tmp_path / "image-map" / "tune-2.json").stat().st_mtime_ns
    done = _image_part.run
    monkeypatch.setattr(
        _image_part, "run", lambda part, *rest: 1 / 0 if part.name == "width-2" else done(part, *rest)
    )
    with pytest.warns(UserWarning, match="part width-2 failed: ZeroDivisionError"):
        reproduce("image-map", tmp_path, smoke=True, parts="tune,width")
    found = json.loads((tmp_path / "image-map.json").read_text(encoding="utf-8"))
    assert list(found["data"]) == ["tune-2", "tune-4", "width-4"]
    assert (tmp_path / "image-map" / "tune-2.json").stat().st_mtime_ns == kept


def test_a_part_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="`parts` must name a part that can be run; got 'nothing'"):
        reproduce("image-map", tmp_path, smoke=True, parts="nothing")


def test_the_gate_is_chosen_on_held_out_images_alone(tmp_path):
    library_gate = DiversityGate()
    assert image_map.choose_gate(tmp_path) == (library_gate.start, library_gate.end, library_gate.by)
    gates = [None, None, Gate(0.4, 0.6)._asdict(), Gate(0.5, 0.7, "r_tl")._asdict()]
    for width, errors in ((8, [0.30, 0.25, 0.27, 0.26]), (32, [0.13, 0.15, 0.13, 0.14])):
        held, test = {"soft": [errors]}, {"soft": [errors[::-1]]}
        part = {
            "config": {"arms": [{"gate": gate} for gate in gates]},
            "data": {kind: {"raw": one, "read": one} for kind, one in (("held_out", held), ("test", test))},
        }
        (tmp_path / f"tune-{width}.json").write_text(json.dumps(part))
    # 0.27 / 0.30 + 0.13 / 0.13 = 1.90 is less than 0.26 / 0.30 + 0.14 / 0.13 = 1.94
    assert image_map.choose_gate(tmp_path) == Gate(0.4, 0.6)


def piece(width, independent, diverse, fit):
    arms = [{"name": name} for name in ("independent", "0.9", "auto")]
    one = {name: [[fit] * 3] for name in ("member", "r_tl", "r_ll", "optimality", "error_correlation")}
    train, test = {**one, "soft": [[0.1] * 3]}, {**one, "soft": [[independent, diverse, independent]]}
    return {
        "config": {
            "width": width,
            "n_learners": 5,
            "arms": arms,
            "read_out": [False, True, True],
            "seeds": [0],
        },
        "data": {"train": {"raw": train, "read": train}, "test": {"raw": test, "read": test}},
    }


def test_what_tells_the_sign_is_judged_on_other_widths():
    data = {
        "width-8": piece(8, 0.30, 0.25, 0.6),
        "width-32": piece(32, 0.13, 0.15, 0.9),
        "width-4": piece(4, 0.40, 0.35, 0.5),  # told: pays
        "width-64": piece(64, 0.11, 0.12, 0.95),  # told: costs
        "width-16": piece(16, 0.18, 0.185, 0.7),  # told wrongly: under the threshold, 0.75
    }
    rank, right, n = tables.told({"config": {"smoke": False}, "data": data}, "r_TL")
    assert (right, n) == (2, 3)
    assert rank < -0.7


def test_votes_are_read_as_the_library_would(record):
    one = record["data"]["width-2"]
    for arm, how in (("independent", "raw"), ("0.9", "read"), ("auto", "read")):
        place = [a["name"] for a in one["config"]["arms"]].index(arm)
        expected = np.array(one["data"]["test"][how]["soft"])[:, place]
        np.testing.assert_array_equal(tables.arm_values(one, arm), expected)


def test_a_single_net_has_the_size_of_the_ensemble():
    for width, n in [(4, 10), (8, 10), (16, 5), (32, 5)]:
        one = backbone("convnet", 10, width=image_map.same_size(width, n))
        many = backbone("convnet", 10, width=width)
        sizes = [sum(p.numel() for p in net.parameters()) for net in (one, many)]
        assert sizes[0] == pytest.approx(n * sizes[1], rel=0.12)


def test_the_page_says_what_the_record_says():
    path = ROOT / "results" / "image-map.json"
    page = (ROOT / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8")
    if not path.exists():
        pytest.skip("there is no record of the map yet")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert fill(page, "image-map", tables.in_markdown(found)) == page
    gate = DiversityGate()
    assert found["config"]["gate"] == {"start": gate.start, "end": gate.end, "by": gate.by}
