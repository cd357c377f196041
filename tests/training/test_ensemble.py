import pytest
import torch
from torch import nn

from counterpoint.training import Ensemble, Stacked, can_stack


def mlp():
    head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3, bias=False))
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), head)


def conv():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, groups=2, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


INPUTS = {mlp: (5, 6), conv: (5, 3, 8, 8)}


class Odd(nn.Module):
    """A net that is no sequence of layers."""

    def __init__(self, n_classes=3):
        super().__init__()
        self.layer = nn.Linear(6, n_classes)

    def forward(self, x):
        return self.layer(x) + 1


@pytest.fixture(params=[mlp, conv], ids=["mlp", "conv"])
def nets(request):
    torch.manual_seed(0)
    learners = [request.param() for _ in range(4)]
    for learner in learners:  # statistics of their own
        learner(torch.randn(32, *INPUTS[request.param][1:]))
    return learners, torch.randn(*INPUTS[request.param])


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_stacked_learners_put_out_what_they_did_alone(nets, grouped, training):
    learners, x = nets
    for learner in learners:
        learner.train(training)
    stacked = Stacked(learners)
    stacked.grouped = grouped
    expected = torch.stack([learner(x) for learner in learners])
    assert torch.allclose(stacked(x), expected, atol=1e-5)
    for one, other in zip(stacked.unstack(), learners, strict=True):  # statistics moved alike
        for name, value in one.state_dict().items():
            assert torch.allclose(value, other.state_dict()[name], atol=1e-6), name


def test_stacked_learners_have_the_gradients_they_had_alone(nets):
    learners, x = nets
    stacked = Stacked(learners)
    stacked(x).square().sum().backward()
    gradients = [p.grad.clone() for p in stacked.parameters()]
    for learner in learners:
        learner(x).square().sum().backward()
    assert sum(g.sum() for g in gradients).item() == pytest.approx(
        sum(p.grad.sum().item() for learner in learners for p in learner.parameters()), rel=1e-3, abs=1e-3
    )


def test_each_learner_may_see_a_view_of_its_own(nets):
    learners, x = nets
    ensemble = Ensemble(learners).eval()
    views = [x + i for i in range(4)]
    expected = torch.stack([learner.eval()(view) for learner, view in zip(learners, views, strict=True)])
    assert torch.allclose(ensemble(views), expected, atol=1e-5)
    mixed = Ensemble([Odd(), nn.Linear(6, 3)])
    y = torch.randn(5, 6)
    assert torch.allclose(mixed([y, 2 * y])[1], mixed.learners[1](2 * y))


def test_dropout_is_each_learners_own_even_on_a_shared_input():
    learners = [nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 2)) for _ in range(3)]
    for learner in learners[1:]:
        learner.load_state_dict(learners[0].state_dict())
    outputs = Ensemble(learners)(torch.ones(4, 50))
    assert not torch.allclose(outputs[0], outputs[1])
    assert torch.allclose(*Ensemble(learners).eval()(torch.ones(4, 50))[:2])


def test_unstacked_learners_are_ordinary_and_independent(nets):
    learners, x = nets
    ensemble = Ensemble(learners)
    assert ensemble.is_stacked
    copies = ensemble.learners
    assert [type(c) for c in copies] == [nn.Sequential] * 4
    with torch.no_grad():
        next(copies[0].parameters()).zero_()
    again = torch.stack([learner.eval()(x) for learner in ensemble.learners])
    assert torch.allclose(ensemble.eval()(x), again, atol=1e-5)


def test_any_mix_of_networks_is_an_ensemble():
    ensemble = Ensemble([Odd(), nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))])
    assert not ensemble.is_stacked
    assert ensemble(torch.randn(5, 6)).shape == (3, 5, 3)


@pytest.mark.parametrize(
    "learners",
    [
        [nn.Linear(4, 2)],
        [nn.Linear(4, 2), nn.Linear(4, 3)],
        [nn.Linear(4, 2), nn.Linear(4, 2, bias=False)],
        [Odd(), Odd()],
        [nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1)), nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.2))],
        [nn.Linear(4, 2).double(), nn.Linear(4, 2)],
        [nn.Linear(4, 2), nn.Linear(4, 2).requires_grad_(False)],
        [nn.Conv2d(1, 2, 3, padding_mode="circular")] * 2,
    ],
)
def test_learners_that_differ_are_not_stacked(learners):
    assert not can_stack(learners)
    with pytest.raises(ValueError, match="`learners` must be equal sequences of layers"):
        Stacked(learners)


def test_learners_that_share_parameters_are_not_stacked():
    layer = nn.Linear(4, 4)
    assert not can_stack([nn.Sequential(layer, nn.Linear(4, 2)), nn.Sequential(layer, nn.Linear(4, 2))])


def test_frozen_parameters_stay_frozen():
    learners = [nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2)) for _ in range(2)]
    flags = [p.requires_grad for p in Ensemble(learners).parameters()]
    assert flags.count(False) == 2


def test_the_path_of_convolutions_is_measured_once_and_changes_nothing(nets):
    learners, x = nets
    stacked = Stacked(learners)
    before = {name: value.clone() for name, value in stacked.state_dict().items() if "extra" not in name}
    state = torch.get_rng_state()
    choice = stacked._grouped_is_faster(x, own=False)
    assert choice in (True, False)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(stacked.state_dict()[name], value) for name, value in before.items())
    assert all(p.grad is None for p in stacked.parameters())


def test_a_restored_ensemble_convolves_the_way_it_did():
    stacked, other = (Stacked([conv(), conv()]) for _ in range(2))
    for way in (None, True, False):
        stacked.grouped = way
        other.load_state_dict(stacked.state_dict())
        assert other.grouped is way


def test_soft_and_hard_votes_with_weights():
    learners = [nn.Linear(2, 2, bias=False) for _ in range(3)]
    x = torch.tensor([[1.0, 0.0]])
    with torch.no_grad():
        for learner, logit in zip(learners, (6.0, -0.5, -0.5), strict=True):
            learner.weight.copy_(torch.tensor([[logit, 0.0], [0.0, 0.0]]))
    soft, hard = Ensemble(learners), Ensemble(learners, voting="hard")
    proba = torch.stack([learner(x).softmax(-1) for learner in learners])
    assert torch.allclose(soft.predict_proba(x), proba.mean(0))
    assert hard.predict_proba(x).tolist()[0] == pytest.approx([1 / 3, 2 / 3])
    assert (soft.predict(x).item(), hard.predict(x).item()) == (0, 1)
    assert Ensemble(learners, voting="hard", weights=[4, 1, 1]).predict(x).item() == 0
    assert torch.allclose(soft.member_proba(x), proba)


def test_one_logit_is_a_binary_answer():
    ensemble = Ensemble([nn.Linear(3, 1) for _ in range(2)])
    proba = ensemble.predict_proba(torch.randn(4, 3))
    assert proba.shape == (4, 2)
    assert torch.allclose(proba.sum(1), torch.ones(4))


def test_predicting_leaves_the_mode_of_every_module(nets):
    learners, x = nets
    ensemble = Ensemble(learners).train()
    ensemble.members.layers[1].eval()
    ensemble.predict(x)
    assert ensemble.training
    assert not ensemble.members.layers[1].training


def test_state_dicts_round_trip(nets):
    learners, x = nets
    ensemble = Ensemble(learners).eval()
    other = Ensemble([type(learners[0])(*learner) for learner in learners]).eval()
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    other.load_state_dict(ensemble.state_dict())
    assert torch.equal(other(x), ensemble(x))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Ensemble([]), TypeError, "`learners` must be a list of at least one torch Module; got"),
        (lambda: Ensemble([1, 2]), TypeError, "`learners` must be a list of at least one torch Module"),
        (
            lambda: Ensemble([Odd()], voting="loud"),
            ValueError,
            "`voting` must be one of 'soft', 'hard'; got 'loud'",
        ),
        (lambda: Ensemble([Odd(), Odd()], weights=[1]), ValueError, r"`weights` must have shape \(2,\)"),
        (
            lambda: Ensemble([Odd(), Odd(4)])(torch.randn(5, 6)),
            ValueError,
            r"as many classes each; got the shapes \(5, 3\), \(5, 4\)",
        ),
        (
            lambda: Ensemble([Odd(), Odd()])([torch.randn(5, 6)]),
            ValueError,
            "`x` must be a batch, or a list of 2 views of it; got 1 views",
        ),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()
