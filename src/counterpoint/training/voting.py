"""The vote: how the outputs of the learners become the probabilities of the ensemble."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from counterpoint.training.columns import two_columns
from counterpoint.training.readout import Readout

__all__ = ["VOTES", "Vote", "combine"]

VOTES = ("soft", "hard", "geometric")


class Vote(NamedTuple):
    """A vote with all it depends on, other than the outputs of the learners.

    It holds the read-out at the time, so that it stays the same if the ensemble is calibrated again.

    Attributes
    ----------
    kind : {"soft", "hard", "geometric", "mean"}
        Average the probabilities, count the votes, or average the log-probabilities; "mean" for regression.
    activation : {"softmax", "identity", "regression"}
        How outputs become probabilities. For regression they are numbers, and the vote is their mean.
    weights : Tensor of shape (n_learners,), optional
        Weights of the learners, which sum to one; equal by default. A learner of weight 0 takes no part.
    readout : Readout, optional
        Applied to the outputs first.

    Examples
    --------
    >>> logits = torch.tensor([[[2.0, 0.0]], [[0.0, 1.0]]])  # (n_learners, batch, n_classes)
    >>> Vote("soft")(logits).round(decimals=3)
    tensor([[0.5750, 0.4250]])
    >>> Vote("hard")(logits)
    tensor([[0.5000, 0.5000]])
    >>> Vote("mean", "regression")(logits)
    tensor([[1.0000, 0.5000]])
    """

    kind: str
    activation: str = "softmax"
    weights: Tensor | None = None  # (N,)
    readout: Readout | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        """Return the probabilities or numbers (batch, n_classes) for outputs (n_learners, batch, n_classes)."""
        if self.activation == "regression":
            numbers = logits if logits.dtype == torch.float64 else logits.float()
            return _weighted_sum(_shares(numbers, self.weights), numbers)
        return combine(self.learners(logits), self.kind, self.weights)

    def learners(self, logits: Tensor) -> Tensor:
        """Return the log-probabilities that are combined, (n_learners, batch, n_classes)."""
        logits = two_columns(logits, self.activation)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.activation == "identity":
            return logits.clamp(min=torch.finfo(logits.dtype).tiny).log()
        if self.readout is not None:
            decodes = self.kind == "geometric" and self.readout.decodes  # the mean of standardised outputs
            logits = self.readout.decoded(logits) if decodes else self.readout(logits)
        return logits.log_softmax(-1)


def combine(log_proba: Tensor, kind: str, weights: Tensor | None = None) -> Tensor:
    """Return the vote (batch, n_classes) of log-probabilities (n_learners, batch, n_classes)."""
    share = _shares(log_proba, weights)
    if kind == "geometric":
        return _weighted_sum(share, log_proba).softmax(-1)
    proba = log_proba.exp()
    if kind == "hard":
        proba = nn.functional.one_hot(log_proba.argmax(-1), log_proba.shape[-1]).to(log_proba)
    return _weighted_sum(share, proba)


def _shares(outputs: Tensor, weights: Tensor | None) -> Tensor:
    n = len(outputs)
    if weights is None:
        return outputs.new_full((n,), 1 / n)
    share = weights.to(outputs)
    return share / share.sum()  # some may have been set to 0, or rounded to another dtype


def _weighted_sum(share: Tensor, outputs: Tensor) -> Tensor:
    # A matrix product would be rounded under autocast. 0 times infinity is not a number: no share, no part.
    part = share[:, None, None]
    return (part * outputs.masked_fill(part == 0, 0.0)).sum(0)
