r"""The read-out: a temperature and class offsets for each learner, after training by correlation.

A correlation does not see shift and scale. With two classes, learners that put out 0.1 and 0.3 in the place of 0 and 1
have the best loss there is, and always vote for the first class. So each learner's logits z become :math:`s z + b`,
with one s and a b for each class from the cross-entropy on training samples ("vector scaling", Guo et al. 2017). This
changes neither what a learner knows nor, by much, how the learners differ.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from counterpoint._validation import check_whole
from counterpoint.training.correlation import (
    check_weight,
    class_columns,
    indicators,
    one_hot,
    shares,
    two_columns,
)
from counterpoint.training.preparation import outputs_of, placed
from counterpoint.training.unwrapping import unwrapped

if TYPE_CHECKING:
    from counterpoint.training.ensemble import Ensemble

__all__ = ["Readout", "calibrate"]

# The mean cross-entropy pays this much for the squared distance from the read-out so far, so that a learner that is
# always right on its training rows does not become boundlessly sure of itself.
_RIDGE = 1e-3
# The spread of logits that a learner starts from at most: from far beyond, the ridge would not let it come back.
_SURE = 30.0
_STEPS = 30
_CLOSE = 1e-2  # a step this small is the last: the next would be of the order of its square
_ROUNDING = 1e-6  # of the cross-entropy in single precision
_FEW = 400  # samples


class Readout(nn.Module):
    """The last step of learners: ``scale * logits + offset``.

    Parameters
    ----------
    scale : Tensor, shape (n_learners, 1, 1) or (1, 1)
        One factor for each learner.
    offset : Tensor, shape (n_learners, 1, n_classes) or (1, n_classes)
        One summand for each learner and class.

    Examples
    --------
    >>> timid = torch.tensor([[[0.0, -1.0], [0.0, -0.5], [0.0, -1.1], [0.0, -0.4]]])  # always votes for class 0
    >>> target = torch.tensor([0, 1, 0, 1])
    >>> Readout.identity(1, 2).refit(timid, target)(timid).argmax(-1)
    tensor([[0, 1, 0, 1]])
    """

    scale: Tensor
    offset: Tensor

    def __init__(self, scale: Tensor, offset: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)

    @classmethod
    def identity(cls, n_learners: int, n_classes: int) -> Self:
        """Return the read-out that changes nothing."""
        n_learners = check_whole(n_learners, "n_learners", minimum=1)
        n_classes = check_whole(n_classes, "n_classes", minimum=1)
        return cls(torch.ones(n_learners, 1, 1), torch.zeros(n_learners, 1, n_classes))

    def forward(self, logits: Tensor) -> Tensor:
        """Return the logits as they are read."""
        return two_columns(logits) * self.scale + self.offset

    def of(self, learner: int) -> "Readout":
        """Return that of one learner."""
        return Readout(self.scale[learner].clone(), self.offset[learner].clone())

    @torch.no_grad()
    def refit(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Self:
        """Return the read-out for what the learners put out, near this one where the rows say little.

        Parameters
        ----------
        logits : Tensor, shape (n_learners, n_samples, n_classes)
            What the learners put out.
        target : Tensor, shape (n_samples,) or (n_learners, n_samples)
            The classes, for all learners or for each.
        weight : Tensor, of the shape of target, optional
            Weights of the samples.
        """
        if weight is not None and weight.dim() == 1 and not (counts := weight > 0).all():
            logits, target, weight = logits[:, counts], target[counts], weight[counts]
            if not len(target):
                return self
        z = class_columns(logits)  # (N, m, n)
        if not z.sum().isfinite():
            return self  # there is nothing to read
        z = z - z.mean(1, keepdim=True)
        share = shares(torch.ones_like(target) if weight is None else weight, z.dtype)
        spread = (z.square().mean(1) * share).sum(-1).sqrt().clamp(min=1e-6)
        z.div_(spread[:, None, None])  # so the scale is measured in units of 1 / spread
        scale = (self.scale[:, 0].to(z) * spread[:, None]).clamp(-_SURE, _SURE)
        start = torch.cat([scale, self.offset[:, 0].to(z)], 1)
        few = max(z.shape[2] // _FEW, 1)  # most steps on a part of the samples, the last ones on all
        part = shares(share[..., ::few], z.dtype)
        # From the optimum of a part, a step on all the samples is about as good as their optimum (Le Cam).
        close = _CLOSE if few == 1 else 10 * _CLOSE
        with torch.autocast(z.device.type, enabled=False):  # Newton's method needs the digits
            found = _Samples(z[..., ::few].contiguous(), target[..., ::few], part, start).least(start, close)
            if few > 1:
                found = _Samples(z, target, share, start).least(found, close)
        scale, offset = found[:, :1] / spread[:, None], found[:, 1:]
        return type(self)(scale[:, None].to(self.scale), offset[:, None].to(self.offset))


def calibrate(ensemble: "Ensemble", batches: Iterable[Any], *, max_samples: int = 10_000) -> "Ensemble":
    """Give each learner the scale and class offsets that fit its probabilities to some samples.

    Parameters
    ----------
    ensemble : Ensemble
        It, or the one that a wrapper of torch holds, gets a ``readout``, which ``member_proba``, ``predict_proba`` and
        ``predict`` use; what it puts out by ``forward`` stays as it is.
    batches : iterable of (x, y) or (x, y, weight)
        The samples, with weights throughout or nowhere; those trained on will do.
    max_samples : int, default=10000
        How many samples are enough.

    Returns
    -------
    Ensemble
        The same ensemble.

    Notes
    -----
    A correlation is blind to the scale and offset of a column, so learners trained by
    :class:`~counterpoint.training.CorrelationLoss` rank the samples well and may still vote for one class throughout.
    :func:`~counterpoint.training.fit` calibrates at its end if that was the loss.

    Examples
    --------
    >>> from counterpoint.training import Ensemble
    >>> ensemble = Ensemble([nn.Linear(1, 2), nn.Linear(1, 2)])
    >>> x, y = torch.linspace(-1, 1, 64)[:, None], (torch.linspace(-1, 1, 64) > 0.5).long()
    >>> bool((calibrate(ensemble, [(x, y)]).predict(x) == y).float().mean() >= 0.75)
    True
    """
    from counterpoint.training.ensemble import Ensemble, evaluating

    bare = unwrapped(ensemble)
    if not isinstance(bare, Ensemble):
        raise TypeError(f"`ensemble` must be an Ensemble; got {type(ensemble).__name__}.")
    max_samples = check_whole(max_samples, "max_samples", minimum=1)
    if bare.outputs != "softmax":
        raise ValueError(
            "`ensemble` must put out logits, to be calibrated; got one that puts out probabilities."
        )
    device = next(bare.parameters(), bare.weights).device
    logits, targets, weights, seen = [], [], [], 0
    with evaluating(bare):
        for x, y, *weight in placed(batches, device, "batches"):
            columns = class_columns(outputs_of(bare, x, "batches"))
            logits.append(columns)
            targets.append(one_hot(y, columns).argmax(-2))
            for given in weight:
                check_weight(given, len(y))
            weights += weight
            seen += len(y)
            if seen >= max_samples:
                break
    if not logits:
        raise ValueError("`batches` must give at least one batch; got none.")
    raw, target = torch.cat(logits, 2).mT, torch.cat(targets)
    start = Readout.identity(raw.shape[0], raw.shape[-1]).to(device)
    bare.readout = start.refit(raw, target, torch.cat(weights) if weights else None)
    return ensemble


class _Samples:
    """What the read-out is fitted to: a penalised cross-entropy with one scale and m offsets for each learner.

    Parameters
    ----------
    z : Tensor, shape (N, m, n)
        Logits.
    target : Tensor, shape (n,) or (N, n)
        The classes.
    share : Tensor, of the shape of target
        Weights that sum to one.
    start : Tensor, shape (N, 1 + m)
        The scale and offsets from which the distance is penalised.
    """

    def __init__(self, z: Tensor, target: Tensor, share: Tensor, start: Tensor) -> None:
        self.z, self.start, self.share = z, start, share
        self.labels = target.expand(len(z), -1).unsqueeze(1)  # (N, 1, n)
        # The gradient of what the true classes get is the same for all scales and offsets.
        scales = (z.gather(1, self.labels).squeeze(1) * share).sum(-1)
        offsets = (indicators(target, z) * share.unsqueeze(-2)).sum(-1).expand(len(z), -1)
        self.of_truth = torch.cat([scales[:, None], offsets], 1)  # (N, 1 + m)

    def least(self, theta: Tensor, close: float) -> Tensor:
        """Return scale and offsets (N, 1 + m) of the least value, by Newton's method with step halving."""
        value, log_proba = self.value(theta)
        for _ in range(_STEPS):
            step = self.newton_step(theta, log_proba.exp_())
            if step.abs().max() < close:
                return theta - step
            size, most = torch.ones_like(value), value + _ROUNDING
            for _ in range(10):
                trial = theta - size[:, None] * step
                value, log_proba = self.value(trial)
                if not (worse := value > most).any():
                    break
                size = torch.where(worse, size / 2, size)
            else:  # there is no way down for some, by rounding: they are where they can be
                trial = torch.where(worse[:, None], theta, trial)
                if worse.all():
                    return trial
                value, log_proba = self.value(trial)
            theta = trial
        return theta

    def value(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the penalised cross-entropy of each learner, and the log-probabilities (N, m, n)."""
        log_proba = torch.addcmul(theta[:, 1:, None], theta[:, :1, None], self.z).log_softmax(1)
        cross_entropy = -(log_proba.gather(1, self.labels).squeeze(1) * self.share).sum(-1)
        return cross_entropy + _RIDGE / 2 * (theta - self.start).square().sum(-1), log_proba

    def newton_step(self, theta: Tensor, proba: Tensor) -> Tensor:
        """Return the step (N, 1 + m), from the probabilities (N, m, n) that theta gives."""
        z, share = self.z, self.share.unsqueeze(-2)
        held = proba * share
        pull = held * z
        mean = pull.sum(1, keepdim=True)  # (N, 1, n), of the logits under the probabilities, times the share
        whole, away = held.sum(2), pull.sum(2) - (proba @ mean.mT).squeeze(2)  # (N, m)
        spread = pull.mul_(z).sum((1, 2)) - (mean.square() / share.clamp(min=1e-12)).sum((1, 2))
        hessian = _RIDGE * torch.eye(1 + z.shape[1], dtype=z.dtype, device=z.device).repeat(len(z), 1, 1)
        hessian[:, 0, 0] += spread
        hessian[:, 0, 1:] += away
        hessian[:, 1:, 0] += away
        hessian[:, 1:, 1:] += torch.diag_embed(whole) - held @ proba.mT
        gradient = torch.cat([mean.sum((1, 2))[:, None], whole], 1) - self.of_truth
        gradient += _RIDGE * (theta - self.start)
        place = "cpu" if z.device.type == "mps" else z.device  # Apple's GPUs have no double precision
        step: Tensor = torch.linalg.solve(hessian.to(place).double(), gradient.to(place).double())
        return step.to(z)
