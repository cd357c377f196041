r"""The read-out: calibrated probabilities of learners that were trained by correlation.

A correlation is invariant to shift and scale. With two classes, learners with outputs 0.1 and 0.3 instead of 0 and 1
have the best possible loss and always vote for the first class. So there are two read-outs, both fitted by
cross-entropy on training samples:

- *Of a learner*, for its own predictions: its logits z become :math:`s z + b`, with one s and a b for each class
  ("vector scaling", Guo et al. 2017).
- *Of the ensemble*: what the loss trains is the mean :math:`\bar z_k` of the learners' standardised outputs for class
  k, so that mean is decoded, by :math:`a_k \bar z_k + b_k` as logits: two numbers for each class.
"""

import math
from typing import Self

import torch
from torch import Tensor, nn

from counterpoint._validation import check_whole
from counterpoint.training.columns import class_columns, indicators, shares, two_columns

__all__ = ["Readout"]

# Penalty of the mean cross-entropy for the squared distance from the current read-out, so that the confidence of a
# learner that is always right on its training rows stays bounded.
_RIDGE = 1e-3
# Largest initial spread of the logits: from far beyond it, the ridge would not let a learner come back.
_SURE = 30.0
_STEPS = 30
_CLOSE = 1e-2  # a step this small is the last: the next would be about its square
_ROUNDING = 1e-6  # of the cross-entropy in single precision
_FEW = 400  # samples
_CONSTANT = 1e-6  # a standard deviation of probabilities below which a column counts as constant


class Readout(nn.Module):
    """The last step of the learners: ``scale * logits + offset``, and the decoding of their standardised mean.

    Parameters
    ----------
    scale : Tensor, shape (n_learners, 1, 1) or (1, 1)
        One factor for each learner.
    offset : Tensor, shape (n_learners, 1, n_classes) or (1, n_classes)
        One offset for each learner and class.
    center, spread : Tensor, shape (n_learners, 1, n_classes), optional
        Mean and standard deviation of the probabilities of each learner.
    pool_scale, pool_offset : Tensor, shape (n_classes,), optional
        Scale and offset that turn the mean of the standardised probabilities into logits.

    Examples
    --------
    >>> timid = torch.tensor([[[0.0, -1.0], [0.0, -0.5], [0.0, -1.1], [0.0, -0.4]]])  # always votes for class 0
    >>> target = torch.tensor([0, 1, 0, 1])
    >>> Readout.identity(1, 2).refit(timid, target)(timid).argmax(-1)
    tensor([[0, 1, 0, 1]])
    """

    scale: Tensor
    offset: Tensor
    center: Tensor | None
    spread: Tensor | None
    pool_scale: Tensor | None
    pool_offset: Tensor | None

    def __init__(
        self,
        scale: Tensor,
        offset: Tensor,
        center: Tensor | None = None,
        spread: Tensor | None = None,
        pool_scale: Tensor | None = None,
        pool_offset: Tensor | None = None,
    ) -> None:
        super().__init__()
        self._check_parts(scale, offset, center, spread, pool_scale, pool_offset)
        parts = {"scale": scale, "offset": offset, "center": center, "spread": spread}
        for name, value in (parts | {"pool_scale": pool_scale, "pool_offset": pool_offset}).items():
            value = None if value is None else value.contiguous()  # safetensors takes no views
            self.register_buffer(name, value)

    @classmethod
    def identity(cls, n_learners: int, n_classes: int) -> Self:
        """Return the read-out that changes nothing."""
        n_learners = check_whole(n_learners, "n_learners", minimum=1)
        n_classes = check_whole(n_classes, "n_classes", minimum=1)
        return cls(torch.ones(n_learners, 1, 1), torch.zeros(n_learners, 1, n_classes))

    @property
    def decodes(self) -> bool:
        """Whether it decodes the mean of the learners' standardised outputs."""
        return self.pool_scale is not None

    def forward(self, logits: Tensor) -> Tensor:
        """Return the calibrated logits of each learner."""
        self._check_logits(logits)
        return two_columns(logits) * self.scale + self.offset

    def decoded(self, logits: Tensor) -> Tensor:
        """Return decoded logits (n_learners, batch, n_classes) whose mean over the learners is that of the ensemble."""
        if self.center is None or self.spread is None or self.pool_scale is None or self.pool_offset is None:
            raise RuntimeError("this read-out has no decoding of the ensemble; `refit_pool` fits one.")
        self._check_logits(logits)
        standardised = (two_columns(logits).softmax(-1) - self.center) / self.spread
        return standardised * self.pool_scale + self.pool_offset

    @staticmethod
    def _check_parts(scale: Tensor, offset: Tensor, *others: Tensor | None) -> None:
        """Refuse parts whose shapes do not fit together."""
        known = tuple(scale.shape[:-2])
        fits = scale.dim() in (2, 3) and tuple(scale.shape[-2:]) == (1, 1)
        if not fits or tuple(offset.shape[:-1]) != (*known, 1):
            raise ValueError(
                "`scale` and `offset` must have shapes (n_learners, 1, 1) and (n_learners, 1, n_classes), or those of "
                f"one learner; got {tuple(scale.shape)} and {tuple(offset.shape)}."
            )
        wanted = (offset.shape, offset.shape, offset.shape[-1:], offset.shape[-1:])
        for name, part, shape in zip(
            ("center", "spread", "pool_scale", "pool_offset"), others, wanted, strict=True
        ):
            if part is not None and part.shape != shape:
                raise ValueError(f"`{name}` must have shape {tuple(shape)}; got {tuple(part.shape)}.")

    def _check_logits(self, logits: Tensor) -> None:
        """Refuse outputs of another number of learners or classes."""
        tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if tracing or torch.compiler.is_compiling():  # shapes are no numbers then
            return
        *learners, _, n_classes = self.offset.shape
        found = [*logits.shape[-3:-2][: len(learners)], max(logits.shape[-1], 2)]
        if found != [*learners, max(n_classes, 2)]:
            whose = f"{learners[0]} learners" if learners else "one learner"
            raise ValueError(
                f"`logits` must be those of {whose} for {n_classes} classes, as this read-out was fitted to; got shape "
                f"{tuple(logits.shape)}."
            )

    def with_pool_of(self, other: "Readout") -> Self:
        """Return this read-out of the learners with the decoding of another."""
        parts = (other.center, other.spread, other.pool_scale, other.pool_offset)
        return type(self)(self.scale, self.offset, *parts)

    def of(self, learner: int) -> "Readout":
        """Return the read-out of one learner, for its own predictions."""
        return Readout(self.scale[learner].clone(), self.offset[learner].clone())

    @torch.no_grad()
    def refit_pool(
        self,
        logits: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        *,
        learner_weight: Tensor | None = None,
        ridge: float = _RIDGE,
    ) -> Self:
        """Return the read-out with a fitted decoding of the ensemble, close to the current one if there is little data.

        Parameters
        ----------
        logits : Tensor, shape (n_learners, n_samples, n_classes)
            Outputs of the learners.
        target : Tensor, shape (n_samples,)
            The classes.
        sample_weight : Tensor, shape (n_samples,), optional
            Weights of the samples.
        learner_weight : Tensor, shape (n_learners,), optional
            Weights of the learners in the vote.
        ridge : float, default=0.001
            Penalty for the squared distance from the current decoding.
        """
        columns = class_columns(logits)
        if not columns.sum().isfinite() or (sample_weight is not None and not sample_weight.any()):
            return self  # there is nothing to read
        proba = columns.softmax(-2).double() if columns.device.type != "mps" else columns.softmax(-2)
        share = shares(torch.ones_like(target) if sample_weight is None else sample_weight, proba.dtype)
        if self.center is not None and self.spread is not None:
            center, spread = self.center.mT.to(proba), self.spread.mT.to(proba)  # (N, m, 1)
        else:
            center = (proba * share).sum(-1, keepdim=True)
            spread = ((proba - center).square() * share).sum(-1, keepdim=True).sqrt()
            spread = spread.masked_fill(spread < _CONSTANT, math.inf)  # a constant column has no information
        own = torch.ones(len(proba)) if learner_weight is None else learner_weight
        own = (own / own.sum()).to(proba)[:, None, None]
        mean = ((proba - center) / spread * own).sum(0)  # (m, n)
        start = torch.stack([torch.ones(len(mean)), torch.zeros(len(mean))]).to(mean)
        if self.pool_scale is not None and self.pool_offset is not None:
            start = torch.stack([self.pool_scale, self.pool_offset]).to(mean)
        scale, offset = _decoding(mean, target, share, start.flatten(), ridge)
        fitted = [part.to(self.scale) for part in (center.mT, spread.mT, scale, offset)]
        return type(self)(self.scale, self.offset, *fitted)

    @torch.no_grad()
    def refit(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None, *, ridge: float = _RIDGE
    ) -> Self:
        """Return the read-out fitted to some samples, close to the current one if there is little data.

        Parameters
        ----------
        logits : Tensor, shape (n_learners, n_samples, n_classes)
            Outputs of the learners.
        target : Tensor, shape (n_samples,) or (n_learners, n_samples)
            The classes, for all learners or for each.
        sample_weight : Tensor, of the shape of target, optional
            Weights of the samples.
        ridge : float, default=0.001
            Penalty for the squared distance from this read-out.
        """
        if sample_weight is not None and sample_weight.dim() == 1 and not (counts := sample_weight > 0).all():
            logits, target, sample_weight = logits[:, counts], target[counts], sample_weight[counts]
            if not len(target):
                return self
        z = class_columns(logits)  # (N, m, n)
        if not z.sum().isfinite():
            return self  # there is nothing to read
        z = z - z.mean(1, keepdim=True)
        share = shares(torch.ones_like(target) if sample_weight is None else sample_weight, z.dtype)
        spread = (z.square().mean(1) * share).sum(-1).sqrt().clamp(min=1e-6)
        z.div_(spread[:, None, None])  # so the scale is measured in units of 1 / spread
        scale = (self.scale[:, 0].to(z) * spread[:, None]).clamp(-_SURE, _SURE)
        start = torch.cat([scale, self.offset[:, 0].to(z)], 1)
        few = max(z.shape[2] // _FEW, 1)  # most steps on a part of the samples, the last ones on all
        part = shares(share[..., ::few], z.dtype)
        # From the optimum of a part, a step on all the samples is about as good as their optimum (Le Cam).
        close = _CLOSE if few == 1 else 10 * _CLOSE
        with torch.autocast(z.device.type, enabled=False):  # Newton's method needs the digits
            found = _Samples(z[..., ::few].contiguous(), target[..., ::few], part, start, ridge).least(
                start, close
            )
            if few > 1:
                found = _Samples(z, target, share, start, ridge).least(found, close)
        scale, offset = found[:, :1] / spread[:, None], found[:, 1:]
        own = type(self)(scale[:, None].to(self.scale), offset[:, None].to(self.offset))
        return own.with_pool_of(self)


def _decoding(
    mean: Tensor, target: Tensor, share: Tensor, start: Tensor, ridge: float
) -> tuple[Tensor, Tensor]:
    """Return scale and offset (m,) of the least cross-entropy of ``scale * mean + offset``, for a mean (m, n).

    By Newton's method with step halving; the distance from the start is penalised.
    """
    truth = indicators(target, mean)
    m, theta = len(mean), start

    def value(theta: Tensor) -> tuple[Tensor, Tensor]:
        log_proba = (theta[:m, None] * mean + theta[m:, None]).log_softmax(0)
        fit = -((log_proba * truth).sum(0) * share).sum()
        return fit + ridge / 2 * (theta - start).square().sum(), log_proba

    now, log_proba = value(theta)
    for _ in range(_STEPS):
        proba = log_proba.exp()
        pull = proba * mean
        off = torch.cat([(proba - truth) * mean, proba - truth]) * share
        gradient = off.sum(1) + ridge * (theta - start)
        blocks = torch.cat([pull, proba])  # (2m, n)
        hessian = -(blocks * share) @ blocks.mT
        for i, j, moment in ((0, 0, pull * mean), (0, m, pull), (m, 0, pull), (m, m, proba)):
            hessian[i : i + m, j : j + m] += torch.diag((moment * share).sum(1))
        hessian.diagonal().add_(ridge)
        step, size = torch.linalg.solve(hessian, gradient), 1.0
        while size > _CLOSE:
            trial, trial_proba = value(theta - size * step)
            if trial <= now + _ROUNDING:
                break
            size /= 2
        else:  # no descent, because of rounding
            break
        theta, now, log_proba = theta - size * step, trial, trial_proba
        if (size * step).abs().max() < _CLOSE:
            break
    return theta[:m], theta[m:]


class _Samples:
    """The objective of the read-out: a penalised cross-entropy with one scale and m offsets for each learner.

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
    ridge : float
        The weight of that penalty.
    """

    def __init__(self, z: Tensor, target: Tensor, share: Tensor, start: Tensor, ridge: float) -> None:
        self.z, self.start, self.share, self.ridge = z, start, share, ridge
        self.labels = target.expand(len(z), -1).unsqueeze(1)  # (N, 1, n)
        # The gradient of the logits of the true classes does not depend on scales and offsets.
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
            else:  # no descent for some learners, because of rounding: they stay
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
        return cross_entropy + self.ridge / 2 * (theta - self.start).square().sum(-1), log_proba

    def newton_step(self, theta: Tensor, proba: Tensor) -> Tensor:
        """Return the step (N, 1 + m), from the probabilities (N, m, n) that theta gives."""
        z, share = self.z, self.share.unsqueeze(-2)
        held = proba * share
        pull = held * z
        mean = pull.sum(1, keepdim=True)  # (N, 1, n), of the logits under the probabilities, times the share
        whole, away = held.sum(2), pull.sum(2) - (proba @ mean.mT).squeeze(2)  # (N, m)
        spread = pull.mul_(z).sum((1, 2)) - (mean.square() / share.clamp(min=1e-12)).sum((1, 2))
        hessian = self.ridge * torch.eye(1 + z.shape[1], dtype=z.dtype, device=z.device).repeat(len(z), 1, 1)
        hessian[:, 0, 0] += spread
        hessian[:, 0, 1:] += away
        hessian[:, 1:, 0] += away
        hessian[:, 1:, 1:] += torch.diag_embed(whole) - held @ proba.mT
        gradient = torch.cat([mean.sum((1, 2))[:, None], whole], 1) - self.of_truth
        gradient += self.ridge * (theta - self.start)
        place = "cpu" if z.device.type == "mps" else z.device  # Apple's GPUs have no double precision
        step: Tensor = torch.linalg.solve(hessian.to(place).double(), gradient.to(place).double())
        return step.to(z)
