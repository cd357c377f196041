"""The measures of an epoch, collected batch by batch.

Outputs are held and measured many batches at a time: with small networks the number of operations is the cost, and on a
GPU every number that is read waits for the device.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from counterpoint._validation import FloatArray
from counterpoint.training.columns import class_columns, is_one_hot, one_hot
from counterpoint.training.correlation import standardise
from counterpoint.training.ensemble import Voters
from counterpoint.training.ensemble_loss import as_ensemble_loss
from counterpoint.training.mesh import LOCAL, Axes
from counterpoint.training.modules import unwrap
from counterpoint.training.voting import Vote

__all__ = ["NotFiniteError", "Tally", "ratio"]

# Outputs are measured when this many numbers are held, and at the end: as many as fit into a processor's cache, or
# 16 MB on another device, since reading the results waits for it.
_HELD_AT_MOST = {"cpu": 60_000}
_HELD_ELSEWHERE = 4_000_000
_N_BINS = 15  # of the confidence, for the calibration error


class NotFiniteError(FloatingPointError):
    """A loss or a weight is NaN or infinite."""


class _Batch(NamedTuple):
    logits: Tensor  # (N, B, m)
    target: Tensor  # (B,) or (B, m)
    sample_weight: Tensor | None  # (B,)


class Tally:
    """Measures of the vote and of each learner, averaged over the batches of an epoch.

    Correlations are averages over batches, as in the loss; samples count by their weights.

    Parameters
    ----------
    ensemble : Module
        The ensemble whose vote is measured, by its current ``rule``, or by the vote of the loss if it has none.
    loss : callable
        The loss; its ``voting`` and ``activation`` are used for a module without a vote.
    every : int, default=1
        Measure one batch in this many; the loss is over all batches.
    first : int, default=0
        Remainder of the numbers, from 1, of the batches that are measured.
    keep : bool, default=False
        Whether to keep all outputs, for :meth:`outputs`.
    axes : Axes, optional
        The mesh whose processes each add their part of the batches; all then have the same measures.
    """

    n_sums, n_bins = 9, _N_BINS

    def __init__(
        self,
        ensemble: nn.Module,
        loss: Callable[..., Tensor],
        *,
        every: int = 1,
        first: int = 0,
        keep: bool = False,
        axes: Axes = LOCAL,
    ) -> None:
        self._axes = axes
        ensemble, loss = unwrap(ensemble), as_ensemble_loss(loss)
        self._every, self._first = every, first
        if isinstance(ensemble, Voters):
            self._rule = ensemble.rule
        else:
            self._rule = Vote(loss.voting, loss.activation or "softmax")
        self._activation = self._rule.activation
        self._held: list[_Batch] = []
        self._kept: list[_Batch] | None = [] if keep else None
        self._n_held = 0
        self._losses: list[Tensor] = []
        self._sizes: list[int | Tensor] = []
        self._n_batches = self._n_measured = 0
        self._rows: list[int] = []  # of each batch, those of this process
        self._has_pairs = False  # whether a batch that was measured had two samples
        self._loss: FloatArray = np.zeros(2)  # summed over samples, and their number or weight
        self._sums: FloatArray = np.zeros(self.n_sums)  # first that of the weights
        self._gaps: FloatArray = np.zeros(
            self.n_bins
        )  # accuracy less confidence, summed in bins of the confidence
        self._learners: FloatArray = np.zeros(
            (3, 1)
        )  # grows to (3, N): correlation, its count, batches alive

    def add(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None, loss: Tensor) -> Self:
        """Add a batch; nothing is computed before many are held."""
        self._n_batches += 1
        self._losses.append(loss)
        size = logits.shape[1] if sample_weight is None else sample_weight.sum()
        self._sizes.append(0 if self._axes.idle else size)
        self._rows.append(0 if self._axes.idle else logits.shape[1])
        measured = self._n_batches % self._every == self._first
        if not measured and self._kept is None:
            return self
        batch = _Batch(*self._axes.gather(logits, target, sample_weight))
        if not len(batch.target):  # every label is to be ignored
            return self
        if self._kept is not None:
            self._kept.append(batch)
        if measured:
            self._held.append(batch)
            self._n_held += batch.logits.numel()
            self._has_pairs |= batch.logits.shape[1] > 1
            if self._n_held > _HELD_AT_MOST.get(logits.device.type, _HELD_ELSEWHERE):
                self._fold()
        return self

    def means(self) -> dict[str, float]:
        """Return the measures; NaN where nothing was defined.

        Raises
        ------
        NotFiniteError
            If the loss of a batch was NaN or infinite.
        """
        self._fold()
        loss, n_samples = self._loss.tolist()
        weight, votes, log_loss, brier, learners, r_tl, n_tl, r_ll, n_ll = self._sums.tolist()
        return {
            "loss": ratio(loss, n_samples),
            "r_tl": ratio(r_tl, n_tl),
            "r_ll": ratio(r_ll, n_ll),
            "vote_accuracy": ratio(votes, weight),
            "learner_accuracy": ratio(learners, weight),
            "log_loss": ratio(log_loss, weight),
            "brier_score": ratio(brier, weight),
            "calibration_error": ratio(float(np.abs(self._gaps).sum()), weight),
        }

    def largest(self, device: torch.device) -> int:
        """Return how many samples with labels the largest batch had, of all processes; all must call it."""
        return int(self._axes.sum_data(torch.tensor(self._rows, device=device)).max())

    def collapsed(self) -> list[int]:
        """Return the learners whose outputs were constant in every batch that was measured and had weight."""
        self._fold()
        if self._sums[0] == 0 or not self._has_pairs:  # one sample cannot differ from another
            return []
        return [int(i) for i in np.flatnonzero(self._learners[2] == 0)]

    def learner_r_tl(self) -> FloatArray:
        """Return the correlation of each learner with the truth, (n_learners,); NaN where undefined."""
        self._fold()
        total, count, _ = self._learners
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    @property
    def chance(self) -> float:
        """Three standard errors of a correlation where there is none."""
        return 3 / math.sqrt(max(self._n_measured, 1))

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return all logits (n_learners, n_samples, n_classes) and targets, if they were kept."""
        assert self._kept is not None
        return torch.cat([b.logits for b in self._kept], 1), torch.cat([b.target for b in self._kept])

    @torch.no_grad()
    def _fold(self) -> None:
        """Measure the held batches, those of one shape together, and read all results from the device at once."""
        if not self._losses:
            return
        alike: dict[Any, list[_Batch]] = {}
        for batch in self._held:
            alike.setdefault(
                (batch.logits.shape, batch.target.dim(), batch.sample_weight is None), []
            ).append(batch)
        with torch.autocast(
            self._losses[0].device.type, enabled=False
        ):  # sums over a batch need full precision
            self._fold_held(alike)

    def _fold_held(self, alike: dict[Any, list[_Batch]]) -> None:
        losses = torch.stack(self._losses)
        weighted = any(isinstance(size, Tensor) for size in self._sizes)
        sizes = (
            torch.stack([torch.as_tensor(size).to(losses) for size in self._sizes])
            if weighted
            else losses.new_tensor(self._sizes)
        )
        sizes = self._axes.sum_data(sizes)
        measured = [self._measure(batches).to(losses.dtype) for batches in alike.values()]
        numbers = np.array(torch.cat([losses, sizes, *measured]).tolist())
        self._fold_losses(*numbers[: 2 * len(losses)].reshape(2, -1))
        if measured:
            rows = numbers[2 * len(losses) :].reshape(len(measured), -1).sum(0)
            sums, gaps, learners = np.split(rows, [self.n_sums, self.n_sums + self.n_bins])
            self._sums, self._gaps = self._sums + sums, self._gaps + gaps
            self._learners = self._learners + learners.reshape(3, -1)
            self._n_measured += sum(batch.logits.shape[1] for batch in self._held)
        self._held, self._n_held = [], 0

    def _fold_losses(self, losses: FloatArray, sizes: FloatArray) -> None:
        if (bad := ~np.isfinite(losses)).any():
            first = int(np.argmax(bad))
            number = self._n_batches - len(losses) + first + 1
            raise NotFiniteError(f"the loss must stay finite; got {losses[first]} in batch {number}")
        self._loss += [np.dot(losses, sizes), sizes.sum()]
        self._losses, self._sizes = [], []

    def _measure(self, batches: list[_Batch]) -> Tensor:
        """Return sums over batches of one shape: for the vote, for its bins of confidence, and for each learner."""
        columns = torch.stack([class_columns(b.logits, self._activation) for b in batches])  # (k, N, m, B)
        target = torch.stack([b.target for b in batches])
        weights = [b.sample_weight for b in batches if b.sample_weight is not None]
        weight = torch.stack(weights).to(columns) if weights else None  # (k, B)
        proba = columns.softmax(-2) if self._activation == "softmax" else columns
        truth = one_hot(target, proba)  # (k, m, B)
        labels = truth.argmax(-2) if is_one_hot(target, proba) else target.long()
        readout = self._rule.readout
        read = proba if readout is None else readout(columns.mT).mT.softmax(-2)
        vote = self._rule(columns.permute(1, 0, 3, 2).flatten(1, 2)).to(columns)  # of (N, kB, m), (kB, m)
        confidence, top = vote.max(-1)
        votes = (top == labels.flatten()).to(columns)
        true_rows = truth.mT.flatten(0, 1)  # (kB, m)
        log_loss = -(true_rows * vote.clamp(min=torch.finfo(vote.dtype).tiny).log()).sum(-1)
        brier = (vote - true_rows).square().sum(-1)
        chosen = (read == read.amax(-2, keepdim=True)).to(columns)  # several on a tie, each with a share
        right = chosen.gather(-2, labels[:, None, None].expand(-1, chosen.shape[1], 1, -1)).squeeze(-2)
        learners = (right / chosen.sum(-2)).mean(1)  # (k, B)
        samples = torch.ones_like(learners) if weight is None else weight
        rows = samples.flatten()
        bins = (confidence.nan_to_num(0.0) * _N_BINS).long().clamp_(max=_N_BINS - 1)
        gaps = confidence.new_zeros(_N_BINS).index_add_(0, bins, (votes - confidence) * rows)

        found = standardise(proba, target, weight)
        r_tl, r_ll = found.means()  # (k,), 0 where undefined
        batch, size = columns.shape[-1], samples.sum(-1)  # (k,)
        alive = found.inverse.squeeze(-1) > 0  # (k, N, m)
        present = found.truth.ne(0).any(-1)  # (k, 1, m)
        whole = [
            size.sum(),
            votes @ rows,
            log_loss @ rows,
            brier @ rows,
            (learners * samples).sum(),
            size @ r_tl,
            size @ (alive & present).any(-1).any(-1).to(size),
            size @ r_ll,
            size @ (alive.sum(1) > 1).any(-1).to(size),
        ]
        each_learner = [
            (found.columns * found.truth).sum((0, 2, 3)) / batch,
            (alive & present).sum((0, 2)),
            alive.any(-1).sum(0),
        ]
        return torch.cat(
            [
                torch.stack([value.to(columns) for value in whole]),
                gaps,
                *(v.to(columns) for v in each_learner),
            ]
        )


def ratio(total: float, count: float) -> float:
    """Return a mean from a sum; NaN of nothing."""
    return total / count if count > 0 else math.nan
