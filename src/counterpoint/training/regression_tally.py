"""The measures of an epoch of regression."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from counterpoint.training.columns import class_columns, number_columns, shares
from counterpoint.training.ensemble import Voters
from counterpoint.training.ensemble_loss import as_ensemble_loss
from counterpoint.training.modules import unwrap
from counterpoint.training.tally import Tally, ratio

__all__ = ["RegressionTally", "is_regression", "make_tally"]

_ROUNDING = 8  # a column whose spread is this many roundings of its values is constant


def make_tally(ensemble: nn.Module, loss: Callable[..., Tensor], **settings: Any) -> Tally:
    """Return the tally that fits the outputs: labels or numbers.

    Parameters
    ----------
    ensemble, loss
        As for :class:`Tally`; the outputs are numbers if the ``activation`` is "regression".
    **settings
        As for :class:`Tally`.

    Returns
    -------
    Tally

    Examples
    --------
    >>> from counterpoint.training import SquaredErrorLoss
    >>> type(make_tally(nn.Identity(), SquaredErrorLoss())).__name__
    'RegressionTally'
    """
    return (RegressionTally if is_regression(ensemble, loss) else Tally)(ensemble, loss, **settings)


def is_regression(ensemble: nn.Module, loss: Callable[..., Tensor]) -> bool:
    """Return True if the outputs are numbers, by the activation of the ensemble, or of the loss if it has none."""
    bare = unwrap(ensemble)
    activation = bare.activation if isinstance(bare, Voters) else as_ensemble_loss(loss).activation
    return activation == "regression"


class RegressionTally(Tally):
    """Squared errors of the mean and of the learners, and their correlations, averaged over the batches of an epoch."""

    n_sums, n_bins = 7, 0

    def means(self) -> dict[str, float]:
        """Return the measures; NaN where nothing was defined."""
        self._fold()
        loss, n_samples = self._loss.tolist()
        weight, error, learner_error, r_tl, n_tl, r_ll, n_ll = self._sums.tolist()
        return {
            "loss": ratio(loss, n_samples),
            "r_tl": ratio(r_tl, n_tl),
            "r_ll": ratio(r_ll, n_ll),
            "squared_error": ratio(error, weight),
            "learner_squared_error": ratio(learner_error, weight),
        }

    def _measure(self, batches: list[Any]) -> Tensor:
        """Return sums over batches of one shape: for the mean, and for each learner."""
        columns = torch.stack([class_columns(b.logits, self._activation) for b in batches])  # (k, N, m, B)
        truth = number_columns(torch.stack([b.target for b in batches]), columns)  # (k, m, B)
        weights = [b.sample_weight for b in batches if b.sample_weight is not None]
        samples = torch.stack(weights).to(columns) if weights else torch.ones_like(truth[:, 0])  # (k, B)
        mean = self._rule(columns.permute(1, 0, 3, 2).flatten(1, 2)).to(columns)  # (kB, m)
        error = (mean - truth.mT.flatten(0, 1)).square().mean(-1) @ samples.flatten()
        own = ((columns - truth.unsqueeze(1)).square().mean((1, 2)) * samples).sum()

        share = shares(samples, columns.dtype)[:, None, None]
        z, t = _unit(columns, share), _unit(truth.unsqueeze(1), share)  # of norm 1, or 0 where constant
        alive, varies = z.ne(0).any(-1), t.ne(0).any(-1)  # (k, N, m), (k, 1, m)
        r_tl = (z * t).sum(-1)
        n_tl = (alive & varies).sum((1, 2))  # (k,)
        count = alive.sum(1)  # (k, m)
        n_ll = (count * (count - 1)).sum(-1)
        r_ll = z.sum(1).square().sum((1, 2)) - count.sum(-1)
        size = samples.sum(-1)
        whole = [
            size.sum(),
            error,
            own,
            size @ (r_tl.sum((1, 2)) / n_tl.clamp(min=1)),
            size @ (n_tl > 0).to(size),
            size @ (r_ll / n_ll.clamp(min=1)),
            size @ (n_ll > 0).to(size),
        ]
        each_learner = [r_tl.sum((0, 2)), (alive & varies).sum((0, 2)), alive.any(-1).sum(0)]
        return torch.cat(
            [torch.stack([value.to(columns) for value in whole]), *(v.to(columns) for v in each_learner)]
        )


def _unit(columns: Tensor, share: Tensor) -> Tensor:
    """Return columns (..., B) centred and scaled to norm 1, with weights that sum to one; 0 where constant."""
    centred = columns - (columns * share).sum(-1, keepdim=True)
    norm = (centred.square() * share).sum(-1, keepdim=True).sqrt()
    least = _ROUNDING * torch.finfo(columns.dtype).eps * columns.abs().amax(-1, keepdim=True)
    return torch.where(norm > least, centred * share.sqrt() / norm, 0.0)
