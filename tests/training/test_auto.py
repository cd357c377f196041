"""The correlation loss with ``diversity="auto"``: diversity on trial, and on with it where learners underfit."""

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.theory import critical_lambda
from counterpoint.training import (
    Callback,
    CorrelationLoss,
    Ensemble,
    IndependentLoss,
    fit,
)
from counterpoint.training.gate import DiversityGate


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.randn(3, 40, 5, requires_grad=True), torch.randint(5, (40,))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("decision", "plain"), [(0, CorrelationLoss(0.5)), (-1, IndependentLoss()), (1, CorrelationLoss(0.9))]
)
def test_auto_is_the_loss_of_what_the_gate_has_decided(batch, decision, plain, weighted):
    logits, target = batch
    weight = [torch.rand(40)] if weighted else []
    loss = CorrelationLoss("auto")
    loss.gate.progress = 0.0  # so that this batch decides nothing
    loss.gate.decision.fill_(decision)
    values = [one(logits, target, *weight) for one in (loss, plain)]
    found, expected = (torch.autograd.grad(value, logits)[0] for value in values)
    torch.testing.assert_close(*values, rtol=1e-6, atol=0)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("decision", "diversity"), [(0, 0.5), (1, 0.9)])
def test_auto_has_all_digits_of_double_precision(batch, decision, diversity):
    logits, target = batch[0].double(), batch[1]
    loss = CorrelationLoss("auto")
    loss.gate.progress = 0.0
    loss.gate.decision.fill_(decision)
    found, expected = (one(logits, target) for one in (loss, CorrelationLoss(diversity)))
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_gate_sees_the_optimality_of_each_training_batch(batch):
    logits, target = batch
    loss, gate = CorrelationLoss("auto"), DiversityGate()
    loss.gate.progress = gate.progress = 0.0
    loss(logits, target)
    gate(loss.r_tl, loss.r_ll, 3)
    torch.testing.assert_close(loss.gate.fit, gate.fit)


def data(hard=False):
    torch.manual_seed(1)
    x = torch.randn(256, 2)
    y = torch.randint(2, (256,)) if hard else (x[:, 0] > 0).long()
    return list(zip(x.split(64), y.split(64), strict=True))


def learners():
    torch.manual_seed(2)
    return Ensemble([nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)])


def train(ensemble, epochs, *, loss=None, hard=False, batches=None, **options):
    loss = CorrelationLoss("auto") if loss is None else loss

    def adam(parameters):
        return torch.optim.Adam(parameters, 0.05)

    batches = data(hard) if batches is None else batches
    fit(ensemble, batches, loss=loss, optimizer=adam, epochs=epochs, progress=False, **options)
    return loss


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


class Independently(Callback):
    """Turns to cross-entropy after a number of batches, as a gate does that shuts."""

    def __init__(self, n_batches):
        self.left = n_batches

    def on_batch_end(self, state):
        self.left -= 1
        if self.left == 0:
            state.loss.gate.decision.fill_(-1)


@pytest.mark.parametrize("validation", [None, data()])
def test_where_learners_fit_auto_turns_to_independent_training_when_the_trial_is_over(validation):
    auto, turned = learners(), learners()
    loss = train(auto, 20, validation=validation)
    assert int(loss.gate.decision) == -1
    never = CorrelationLoss("auto")
    never.gate.trial = 1.0
    train(turned, 20, loss=never, validation=validation, callbacks=[Independently(8)])  # a tenth of 80
    assert same_weights(auto, turned)
    x, _ = data()[0]
    assert auto.readout is None  # after a cross-entropy none is needed
    assert torch.equal(auto.predict_proba(x), turned.predict_proba(x))


def test_where_learners_underfit_auto_stays_with_explicit_diversity():
    auto = learners()
    seen = Diversities()
    loss = train(auto, 20, hard=True, callbacks=[seen])
    assert int(loss.gate.decision) == 1
    critical = float(critical_lambda(3))
    assert seen.found == pytest.approx(
        [0.5 * critical] * 9 + [0.9 * critical] * 71
    )  # a tenth of 80 is over after 8
    assert auto.readout is not None


class Diversities(Callback):
    """Keeps the lambda that each batch had: the loss is -(r_TL - lambda r_LL)."""

    def __init__(self):
        self.found = []

    def on_batch_end(self, state):
        self.found.append(float((state.batch_loss + state.loss.r_tl) / state.loss.r_ll))


class Progress(Callback):
    """Keeps what the gate was told, and ends a run as a power cut would."""

    def __init__(self, last_epoch=None):
        self.last_epoch, self.told = last_epoch, []

    def on_batch_end(self, state):
        self.told.append(state.loss.gate.progress)

    def on_epoch_begin(self, state):
        if self.last_epoch is not None and state.epoch > self.last_epoch:
            raise KeyboardInterrupt


def test_fit_tells_the_gate_how_far_it_is():
    seen = Progress()
    train(learners(), 2, callbacks=[seen])
    assert seen.told == pytest.approx([i / 8 for i in range(8)])


def test_where_the_number_of_batches_is_unknown_whole_epochs_count():
    seen = Progress()
    train(learners(), 2, batches=lambda epoch: iter(data()), callbacks=[seen])
    assert seen.told == pytest.approx([0] * 4 + [0.5] * 4)


@pytest.mark.parametrize("last_epoch", [1, 4])  # before the decision and after it
def test_a_resumed_run_has_the_gate_of_an_unbroken_one(tmp_path, last_epoch):
    whole, broken = learners(), learners()
    unbroken = train(whole, 6, hard=True)
    checkpoint = tmp_path / "run.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train(broken, 6, hard=True, checkpoint=checkpoint, callbacks=[Progress(last_epoch)])
    resumed = train(broken, 6, hard=True, checkpoint=checkpoint)
    assert torch.equal(unbroken.gate.fit, resumed.gate.fit)
    assert int(unbroken.gate.decision) == int(resumed.gate.decision) == 1
    assert same_weights(whole, broken)


def test_validation_does_not_move_the_gate():
    plain, validated = train(learners(), 3), train(learners(), 3, validation=data())
    assert torch.equal(plain.gate.fit, validated.gate.fit)


def test_a_loss_that_has_served_before_decides_anew():
    loss = train(learners(), 10, hard=True)
    assert int(loss.gate.decision) == 1
    train(learners(), 20, loss=loss)
    assert int(loss.gate.decision) == -1


def noted(ensemble, epochs, **options):
    """Return the history of a training by "auto" on data that the learners fit, and its loss."""
    loss = CorrelationLoss("auto")
    return fit(
        ensemble,
        data(),
        loss=loss,
        optimizer=lambda parameters: torch.optim.Adam(parameters, 0.05),
        epochs=epochs,
        progress=False,
        **options,
    ), loss


@pytest.mark.parametrize("patience", [None, 3])
@pytest.mark.parametrize("metric", ["loss", "vote_accuracy"])
def test_the_best_epoch_is_not_of_the_trial_once_that_is_over(metric, patience):
    history, loss = noted(learners(), 20, validation=data(), metric=metric, patience=patience)
    assert int(loss.gate.decision) == -1
    trial, after = history["val_loss"][:2], history["val_loss"][2:]  # a tenth of 20 epochs
    assert max(trial) < 0 < min(after)  # a correlation, and a cross-entropy
    assert history.best_epoch > 2
    if metric == "loss":
        assert len(history) == 20
        assert history.best_epoch == 3 + int(np.argmin(after))


def test_a_resumed_run_has_the_best_epoch_of_an_unbroken_one(tmp_path):
    options = {"validation": data(), "metric": "loss", "checkpoint": tmp_path / "run.safetensors"}
    unbroken, _ = noted(learners(), 8, validation=data(), metric="loss")
    for last_epoch in (1, 4):
        with pytest.raises(KeyboardInterrupt):
            noted(learners(), 8, callbacks=[Progress(last_epoch)], **options)
    resumed, _ = noted(learners(), 8, **options)
    assert resumed.best_epoch == unbroken.best_epoch
    assert resumed["val_loss"].tolist() == unbroken["val_loss"].tolist()


@pytest.mark.parametrize("validation", [None, data()])
def test_a_plateau_of_the_trial_is_none_of_the_training_after_it(validation):
    history, _ = noted(
        learners(),
        15,  # so that the gate decides within an epoch, whose loss is of both kinds
        validation=validation,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2),
    )
    falling = history["val_loss" if validation else "loss"][2:]
    assert (np.diff(falling) < 0).all()
    assert set(history["lr"]) == {0.05}


def test_a_plateau_scheduler_is_not_punished_for_the_decision():
    """The loss leaps from a correlation to a cross-entropy, which is worse by the numbers alone."""
    history, loss = noted(
        learners(),
        20,
        validation=data(),
        scheduler=lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0),
    )
    assert int(loss.gate.decision) == -1
    falling = history["val_loss"]
    assert falling[2] > falling[1]
    assert set(history["lr"][:5]) == {0.05}


def test_patience_does_not_end_the_trial():
    # The trial takes four epochs, and the fifth decides; nothing ever gets better.
    history, loss = noted(learners(), 40, validation=data(), metric=lambda *_: 0.5, patience=2)
    assert int(loss.gate.decision) != 0
    assert len(history) == 5 + 2


@pytest.mark.parametrize("broken", [False, True])
def test_patience_counts_from_the_decision_where_nothing_was_best_since(tmp_path, broken):
    options = {"metric": lambda *_: float("nan"), "validation": data(), "patience": 3}
    options |= {"checkpoint": tmp_path / "run"} if broken else {}
    if broken:
        with pytest.raises(KeyboardInterrupt):
            noted(learners(), 40, callbacks=[Progress(6)], **options)
    history, loss = noted(learners(), 40, **options)
    assert int(loss.gate.decision) != 0
    assert history.best_epoch is None
    assert len(history) == 5 + 3


def test_one_step_leaves_the_gate_on_trial_and_a_few_suffice_to_decide():
    for steps, decision in ((1, 0), (3, 1)):
        loss = train(learners(), 1, batches=data(hard=True)[:steps])
        assert int(loss.gate.decision) == decision


def test_one_learner_can_be_trained_by_auto():
    torch.manual_seed(0)
    alone = Ensemble([nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))])
    assert int(train(alone, 20).gate.decision) == -1


def test_a_batch_without_weight_teaches_the_gate_nothing(batch):
    logits, target = batch
    loss = CorrelationLoss("auto")
    loss.gate.progress = 0.0
    loss(logits, target)
    before = loss.gate.fit
    (gradient,) = torch.autograd.grad(loss(logits, target, torch.zeros(40)), logits)
    assert torch.equal(loss.gate.fit, before)
    assert not gradient.any()


def test_groups_side_by_side_have_the_losses_they_would_have_alone(batch):
    logits, target = batch
    logits = torch.stack([logits, 2 * logits])
    loss, alone = CorrelationLoss("auto"), [CorrelationLoss(0.5), IndependentLoss()]
    loss.gate = DiversityGate(groups=(2,))
    loss.gate.progress = 0.0
    loss.gate.decision[1] = -1
    expected = torch.stack([one(part, target) for one, part in zip(alone, logits, strict=True)])
    found = loss(logits, target)
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad(each.sum(), logits)[0] for each in (found, expected))
    torch.testing.assert_close(*gradients)


def test_a_loop_of_ones_own_must_say_how_far_it_is(batch):
    with pytest.raises(ValueError, match="`progress` must be set before each training batch"):
        CorrelationLoss("auto")(*batch)


def test_auto_says_so():
    assert "diversity='auto'" in repr(CorrelationLoss("auto"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"diversity": "most"}, "`diversity` must be a number or 'auto'; got 'most'"),
        ({"diversity": "auto", "lam": 0.1}, "`lam` must not be given together with `diversity`"),
        (
            {"diversity": "auto", "reduction": "sum"},
            "`reduction` must be 'mean' where `diversity` is 'auto'; got 'sum'",
        ),
        (
            {"diversity": "auto", "outputs": "identity"},
            "`outputs` must be 'softmax' where `diversity` is 'auto'; got 'identity'",
        ),
    ],
)
def test_what_auto_cannot_do_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CorrelationLoss(**options)


def test_a_loss_left_in_evaluation_mode_decides_all_the_same():
    loss = CorrelationLoss("auto").eval()
    train(learners(), 10, hard=True, loss=loss)
    assert int(loss.gate.decision) == 1


@pytest.mark.parametrize(("epochs", "decision"), [(1, 0), (2, 1)])
def test_without_a_length_the_gate_decides_at_the_start_of_an_epoch(epochs, decision):
    loss = train(learners(), epochs, batches=lambda epoch: iter(data(hard=True)))
    assert int(loss.gate.decision) == decision
