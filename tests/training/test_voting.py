"""What a loss trains is what predicts: the votes, the read-out that decodes, and models with a shared trunk."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.theory import geometric_pool
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    IndependentLoss,
    JointLoss,
    MemberAxis,
    Readout,
    Vote,
    calibrate,
    fit,
)
from counterpoint.training.tally import Tally


def nets(n=4, hidden=6, n_classes=3):
    return [nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, n_classes)) for _ in range(n)]


def data(n=240, n_classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator)
    return x, (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0.5).long() * (n_classes - 2)


def trained(loss, *, ensemble=None, epochs=3, lr=0.02, **options):
    torch.manual_seed(0)
    x, y = data()
    ensemble = Ensemble(nets(), **options) if ensemble is None else ensemble
    history = fit(
        ensemble,
        list(zip(x.split(60), y.split(60), strict=True)),
        loss=loss,
        optimizer=lambda p: torch.optim.Adam(p, lr=lr),
        epochs=epochs,
        progress=False,
    )
    return ensemble, history


@pytest.mark.parametrize("weights", [None, [1, 2, 3, 4]])
def test_the_votes_are_means_of_probabilities_of_logits_and_of_choices(weights):
    torch.manual_seed(0)
    x, _ = data()
    learners = nets()
    proba = torch.stack([net(x) for net in learners]).softmax(-1).detach()
    share = np.ones(4) / 4 if weights is None else np.array(weights) / 10
    expected = {
        "soft": np.einsum("n,nbk->bk", share, proba),
        "hard": np.einsum("n,nbk->bk", share, nn.functional.one_hot(proba.argmax(-1), 3)),
        "geometric": geometric_pool(proba.double().numpy(), weights=share),
    }
    for voting, found in expected.items():
        ensemble = Ensemble(copy.deepcopy(learners), voting=voting, weights=weights)
        assert ensemble.vote == voting
        np.testing.assert_allclose(ensemble.predict_proba(x), found, atol=1e-6)
        np.testing.assert_allclose(Vote(voting, "identity", ensemble.weights)(proba), found, atol=1e-6)
        assert torch.equal(ensemble.predict(x), ensemble.predict_proba(x).argmax(-1))


@pytest.mark.parametrize("voting", ["soft", "hard", "geometric"])
@pytest.mark.parametrize("outputs", [[0.0, -torch.inf, 1.0], [torch.nan] * 3, [torch.inf, 0.0, 0.0]])
def test_a_learner_of_weight_zero_takes_no_part(voting, outputs):
    kept = torch.tensor([[[2.0, 0.0, -1.0]], [[0.0, 1.0, 0.5]]], requires_grad=True)
    silent = torch.tensor([[outputs]], requires_grad=True)
    found = Vote(voting, weights=torch.tensor([0.25, 0.75, 0.0]))(torch.cat([kept, silent]))
    expected = Vote(voting, weights=torch.tensor([0.25, 0.75]))(kept)
    torch.testing.assert_close(found, expected)
    if voting != "hard":
        (gradient,) = torch.autograd.grad(found[0, 0], kept)
        (reference,) = torch.autograd.grad(expected[0, 0], kept)
        torch.testing.assert_close(gradient, reference)


def test_a_regressor_of_weight_zero_takes_no_part():
    numbers = torch.tensor([[[1.0]], [[3.0]], [[torch.inf]]])
    vote = Vote("mean", "regression", torch.tensor([0.5, 0.5, 0.0]))
    assert vote(numbers).item() == 2.0


def test_the_geometric_vote_of_certain_learners_is_that_of_their_mean_logits():
    # In probabilities of float32 these logits would be zeros and ones.
    logits = torch.tensor([[[300.0, 0.0]], [[0.0, 299.0]]])
    ensemble = Ensemble([nn.Identity(), nn.Identity()], voting="geometric")
    expected = torch.tensor([[0.5, -0.0]]).softmax(-1)
    torch.testing.assert_close(ensemble.predict_proba(list(logits)), expected)


def test_probabilities_that_are_zero_have_a_geometric_vote():
    proba = torch.tensor([[[1.0, 0.0, 0.0]], [[0.5, 0.5, 0.0]]])
    ensemble = Ensemble([nn.Identity(), nn.Identity()], voting="geometric", activation="identity")
    vote = ensemble.predict_proba(list(proba))
    assert torch.isfinite(vote).all()
    assert vote.argmax(-1).item() == 0


@pytest.mark.parametrize(
    ("loss", "vote"),
    [
        (DiversityLoss(), "geometric"),
        (DiversityLoss(0.5, pool="probabilities"), "soft"),
        (IndependentLoss(), "soft"),
        (JointLoss(pool="logits"), "geometric"),
        (lambda logits, y: nn.functional.cross_entropy(logits.mean(0), y), "soft"),
    ],
)
def test_an_ensemble_takes_over_the_vote_of_its_loss_and_keeps_it(loss, vote):
    ensemble, history = trained(loss)
    assert ensemble.voting == "auto"
    assert ensemble.vote == vote
    twin = Ensemble(nets())
    assert twin.vote == "soft"
    twin.load_state_dict(ensemble.state_dict())
    assert twin.vote == vote
    x, _ = data()
    assert torch.equal(twin.predict_proba(x), ensemble.predict_proba(x))
    for name in ("log_loss", "brier_score", "calibration_error"):
        assert np.isfinite(history[name]).all()


def test_a_vote_that_was_asked_for_stays():
    ensemble, _ = trained(DiversityLoss(), voting="hard")
    assert ensemble.vote == "hard"
    x, _ = data()
    assert set((4 * ensemble.predict_proba(x)).unique().tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_a_second_fit_by_another_loss_changes_the_vote():
    ensemble, _ = trained(DiversityLoss())
    trained(IndependentLoss(), ensemble=ensemble)
    assert ensemble.vote == "soft"


# The read-out of the ensemble


def test_the_papers_loss_is_decoded_as_a_mean_of_standardised_outputs():
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=30)
    assert ensemble.readout.decodes
    x, y = data()
    with torch.no_grad():
        proba = ensemble(x).softmax(-1)
    z = (proba - proba.mean(1, keepdim=True)) / proba.std(1, keepdim=True, unbiased=False)
    readout = ensemble.readout
    expected = (z.mean(0) * readout.pool_scale + readout.pool_offset).softmax(-1)
    torch.testing.assert_close(ensemble.predict_proba(x), expected, atol=1e-4, rtol=1e-3)
    # the numbers are those of the least cross-entropy, with a little ridge towards a scale of one
    theta = torch.stack([readout.pool_scale, readout.pool_offset]).requires_grad_()
    start = torch.tensor([[1.0] * 3, [0.0] * 3])
    loss = (
        nn.functional.cross_entropy(z.mean(0) * theta[0] + theta[1], y)
        + 5e-4 * (theta - start).square().sum()
    )
    assert torch.autograd.grad(loss, theta)[0].abs().max() < 1e-4


def test_the_decoded_ensemble_is_better_than_the_soft_vote_of_learners_read_out_apart():
    # Small learners that differ much; many images of the same said so too.
    ensemble, _ = trained(CorrelationLoss(0.9), ensemble=Ensemble(nets(10, 2)), epochs=60)
    x, y = data(2000, seed=1)
    decoded = ensemble.predict_proba(x)
    apart = ensemble.learner_proba(x).mean(0)
    log_losses = [nn.functional.nll_loss(proba.log(), y).item() for proba in (decoded, apart)]
    assert log_losses[0] < 0.9 * log_losses[1]
    assert (decoded.argmax(-1) == y).float().mean() >= (apart.argmax(-1) == y).float().mean()


def test_the_shares_of_the_learners_vote_for_what_is_predicted():
    for loss in (CorrelationLoss(0.9), DiversityLoss(), IndependentLoss()):
        ensemble, _ = trained(loss, epochs=5)
        x, _ = data()
        proba, voting = ensemble.vote_learners(x)
        other = Ensemble([nn.Identity()] * 4, voting=voting, activation="identity")
        torch.testing.assert_close(
            other.predict_proba(list(proba)), ensemble.predict_proba(x), atol=1e-5, rtol=1e-4
        )


def test_learners_have_their_own_read_outs_beside_that_of_the_ensemble():
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=20)
    x, _ = data()
    with torch.no_grad():
        expected = ensemble.readout(ensemble(x)).softmax(-1)
    torch.testing.assert_close(ensemble.learner_proba(x), expected)
    single = ensemble.readout.of(2)
    assert not single.decodes
    ensemble.voting = "soft"  # asked for: the learners' own probabilities
    torch.testing.assert_close(ensemble.predict_proba(x), expected.mean(0))


def test_a_read_out_that_decodes_survives_a_state_dict():
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=5)
    twin = Ensemble(nets())
    twin.load_state_dict(ensemble.state_dict())
    x, _ = data()
    assert torch.equal(twin.predict_proba(x), ensemble.predict_proba(x))


def test_constant_learners_and_weightless_samples_are_left_out_of_the_decoding():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 50, 2, generator=generator)
    logits[1] = torch.tensor([0.2, -0.2])
    target = (logits[0, :, 1] > logits[0, :, 0]).long()
    readout = Readout.identity(3, 2).refit_pool(logits, target)
    assert torch.isfinite(readout.decoded(logits)).all()
    weight = torch.ones(50)
    weight[40:] = 0
    kept = Readout.identity(3, 2).refit_pool(logits[:, :40], target[:40])
    for part, other in zip(
        Readout.identity(3, 2).refit_pool(logits, target, weight).buffers(), kept.buffers(), strict=True
    ):
        torch.testing.assert_close(part, other, atol=1e-4, rtol=1e-4)
    with pytest.raises(RuntimeError, match="has no decoding of the ensemble"):
        Readout.identity(3, 2).decoded(logits)


def test_only_fit_by_correlation_decodes_unless_it_is_asked_for():
    x, y = data()
    ensemble = Ensemble(nets())
    assert not calibrate(ensemble, [(x, y)]).readout.decodes
    assert calibrate(ensemble, [(x, y)], decode=True).readout.decodes
    with pytest.raises(TypeError, match="`decode` must be True or False; got 'yes'"):
        calibrate(ensemble, [(x, y)], decode="yes")


def test_a_loop_of_ones_own_decodes_as_fit_does():
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=20)
    x, y = data()
    expected = ensemble.predict_proba(x)
    twin = Ensemble(ensemble.learners)
    assert calibrate(twin, list(zip(x.split(60), y.split(60), strict=True)), decode=True).vote == "geometric"
    torch.testing.assert_close(twin.predict_proba(x), expected, atol=1e-4, rtol=1e-3)
    assert calibrate(twin, [(x, y)]).readout.decodes  # as before
    assert not calibrate(twin, [(x, y)], decode=False).readout.decodes


def test_geometric_is_the_decoded_vote_also_where_it_is_asked_for():
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=5)
    x, _ = data()
    expected = ensemble.predict_proba(x)
    ensemble.voting = ensemble.vote
    assert torch.equal(ensemble.predict_proba(x), expected)


def test_the_decoding_knows_the_weights_of_the_learners():
    x, y = data()
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=30, weights=[5, 1, 1, 1])
    decoded = nn.functional.nll_loss(ensemble.predict_proba(x).log(), y).item()
    ensemble.readout = ensemble.readout.refit_pool(ensemble(x).detach(), y)  # as if they were equal
    assert decoded < nn.functional.nll_loss(ensemble.predict_proba(x).log(), y).item()


def test_learners_that_put_out_probabilities_vote_softly_after_the_papers_loss():
    assert CorrelationLoss(activation="identity").voting == "soft"


@pytest.mark.parametrize("loss", [CorrelationLoss(0.9), IndependentLoss()], ids=repr)
def test_a_fit_that_fails_leaves_the_vote_as_it_was(loss, tmp_path):
    ensemble, _ = trained(CorrelationLoss(0.9), epochs=3)
    x, y = data()
    before = ensemble.predict_proba(x)
    with pytest.raises(FloatingPointError, match="must stay finite"):
        fit(ensemble, [(x * torch.nan, y)], loss=loss, optimizer=torch.optim.Adam, epochs=1, progress=False)
    assert torch.equal(ensemble.predict_proba(x), before)
    settings = {"optimizer": torch.optim.Adam, "epochs": 1, "progress": False, "checkpoint": tmp_path / "run"}
    fit(Ensemble(nets()), [(x, y)], loss=DiversityLoss(), **settings)
    with pytest.raises(ValueError, match="`checkpoint` must be of the same loss"):
        fit(ensemble, [(x, y)], loss=loss, resume=True, **settings)
    assert torch.equal(ensemble.predict_proba(x), before)


def test_votes_and_what_is_measured_of_them_keep_their_digits_under_autocast():
    ensemble, _ = trained(DiversityLoss())
    x, y = data()
    with torch.no_grad():
        logits = ensemble(x)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            tally = Tally(ensemble, DiversityLoss()).add(logits, y, None, torch.zeros(()))
            found.append((ensemble.rule(logits), tally.means()))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-6, nan_ok=True)


def test_an_unknown_vote_is_refused_whenever_it_is_set():
    ensemble = Ensemble(nets())
    with pytest.raises(
        ValueError, match="`voting` must be one of 'auto', 'soft', 'hard', 'geometric'; got 'loud'"
    ):
        ensemble.voting = "loud"


# One network for all learners


def heads(n=4, n_classes=3, axis=1):
    shape = (n, n_classes)
    trunk = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, n * n_classes), nn.Unflatten(1, shape))
    return trunk if axis == 1 else nn.Sequential(trunk, _Swapped())


class _Swapped(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("loss", [DiversityLoss(), CorrelationLoss(0.9), IndependentLoss()], ids=repr)
def test_heads_on_a_shared_trunk_train_and_vote(axis, loss):
    torch.manual_seed(0)
    ensemble = MemberAxis(heads(axis=axis), 4, dim=axis)
    _, history = trained(loss, ensemble=ensemble, epochs=40)
    x, y = data()
    assert ensemble(x).shape == (4, 240, 3)
    assert ensemble.vote == loss.voting
    assert history["log_loss"][0] > 0.5
    assert (ensemble.predict(x) == y).float().mean() > 0.85
    twin = MemberAxis(heads(axis=axis), 4, dim=axis)
    twin.load_state_dict(ensemble.state_dict())
    assert torch.equal(twin.predict_proba(x), ensemble.predict_proba(x))


def test_both_axes_of_a_shared_trunk_are_one_training():
    found = []
    for axis in (1, 0):
        torch.manual_seed(3)
        ensemble = MemberAxis(heads(axis=axis), 4, dim=axis)
        found.append(trained(DiversityLoss(), ensemble=ensemble)[1]["loss"])
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: MemberAxis("net", 3), TypeError, "`module` must be a torch Module; got 'net'"),
        (lambda: MemberAxis(heads(), 0), ValueError, "`n_learners` must be at least 1; got 0"),
        (
            lambda: MemberAxis(heads(), 4, dim=3),
            ValueError,
            "`dim` must be at most 2; got 3",
        ),
        (
            lambda: MemberAxis(heads(), 5)(torch.zeros(2, 5)),
            ValueError,
            r"`module` must return \(batch, n_learners, n_classes\) with 5 learners; got shape \(2, 4, 3\)",
        ),
        (
            lambda: MemberAxis(nn.Linear(5, 3), 3)(torch.zeros(2, 5)),
            ValueError,
            r"with 3 learners; got shape \(2, 3\)",
        ),
        (
            lambda: MemberAxis(heads(), 4, dim=0)(torch.zeros(2, 5)),
            ValueError,
            r"`module` must return \(n_learners, batch, n_classes\) with 4 learners; got shape \(2, 4, 3\)",
        ),
    ],
)
def test_bad_trunks_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


# What fit measures


def test_the_history_has_the_scores_of_the_vote():
    from counterpoint.measures import brier_score, calibration_error, log_loss

    torch.manual_seed(0)
    x, y = data()
    ensemble = Ensemble(nets())
    history = fit(
        ensemble,
        [(x, y)],
        loss=DiversityLoss(),
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
        epochs=1,
        validation=[(x[:100], y[:100]), (x[100:], y[100:])],
        progress=False,
    )
    proba, truth = ensemble.predict_proba(x).double().numpy(), y.numpy()
    record = history[-1]
    assert record["val_log_loss"] == pytest.approx(log_loss(truth, proba), abs=1e-5)
    assert record["val_brier_score"] == pytest.approx(brier_score(truth, proba), abs=1e-5)
    assert record["val_calibration_error"] == pytest.approx(calibration_error(truth, proba), abs=1e-4)
    assert record["val_vote_accuracy"] == pytest.approx((proba.argmax(1) == truth).mean())


def test_the_best_epoch_may_be_the_one_of_the_least_log_loss():
    torch.manual_seed(0)
    x, y = data(60)
    held_out = data(500, seed=1)
    ensemble = Ensemble(nets(3, 60))
    history = fit(
        ensemble,
        [(x, y)],
        loss=DiversityLoss(),
        optimizer=lambda p: torch.optim.Adam(p, lr=0.05),
        epochs=60,
        validation=[held_out],
        metric="log_loss",
        progress=False,
    )
    assert history.best_epoch == int(history["val_log_loss"].argmin()) + 1 < 60
    proba = ensemble.predict_proba(held_out[0])
    found = nn.functional.nll_loss(proba.log(), held_out[1]).item()
    assert found == pytest.approx(history["val_log_loss"].min(), abs=1e-5)


def test_the_learners_may_be_on_any_axis_of_a_trunk():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (3, 2)))  # (batch, 3, 2)
    x = torch.randn(5, 4)
    raw = net(x)
    torch.testing.assert_close(MemberAxis(net, 3)(x), raw.transpose(0, 1))
    torch.testing.assert_close(MemberAxis(net, 2, dim=2)(x), raw.movedim(2, 0))


@pytest.mark.parametrize("voting", ["soft", "geometric", "hard"])
def test_the_shares_of_the_learners_that_are_left_sum_to_one(voting):
    torch.manual_seed(0)
    learners, x = [nn.Linear(4, 3) for _ in range(3)], torch.randn(20, 4)
    ensemble = Ensemble(learners, voting=voting)
    ensemble.weights[2] = 0
    torch.testing.assert_close(
        ensemble.predict_proba(x), Ensemble(learners[:2], voting=voting).predict_proba(x)
    )
    rounded = Ensemble(learners, voting=voting).bfloat16().float()  # a third is then not a third
    torch.testing.assert_close(rounded.predict_proba(x).sum(-1), torch.ones(20))
