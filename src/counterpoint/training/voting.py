"""How what the learners put out becomes the probabilities of their vote."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from counterpoint.training.columns import two_columns
from counterpoint.training.readout import Readout

__all__ = ["VOTES", "Vote", "combine"]

VOTES = ("soft", "hard", "geometric")


class Vote(NamedTuple):
    """A vote, with all that it depends on besides what the learners put out.

    It holds the read-out of now, so that the vote stays what it is if the ensemble gets another.
    """

    kind: str
    activation: str = "softmax"
    weights: Tensor | None = None  # (N,)
    readout: Readout | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        """Return the probabilities (batch, n_classes) of what the learners put out, (n_learners, batch, n_classes)."""
        return combine(self.learners(logits), self.kind, self.weights)

    def learners(self, logits: Tensor) -> Tensor:
        """Return the logarithms of the probabilities that are combined, (n_learners, batch, n_classes)."""
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
    n = len(log_proba)
    share = log_proba.new_full((n,), 1 / n) if weights is None else weights.to(log_proba)
    if kind == "geometric":
        return _weighted_sum(share, log_proba).softmax(-1)
    proba = log_proba.exp()
    if kind == "hard":
        proba = nn.functional.one_hot(log_proba.argmax(-1), log_proba.shape[-1]).to(log_proba)
    return _weighted_sum(share, proba)


def _weighted_sum(share: Tensor, outputs: Tensor) -> Tensor:
    # As a matrix product it would be rounded under autocast.
    return (share[:, None, None] * outputs).sum(0)
