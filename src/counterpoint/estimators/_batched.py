"""The same networks trained at several diversities on several folds, as one batched program.

Notation: C candidates, of which the first is independent training and the others have a diversity each; K folds;
N networks. A *group* is a candidate on a fold; group ``c K + k`` is candidate c on fold k, and the networks of a group
stand side by side among all C K N. The candidates of a fold start from the same weights and see the same batches.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.estimators._making import private_generator
from counterpoint.theory import critical_lambda
from counterpoint.training import Ensemble, IndependentLoss, correlation_loss

__all__ = ["Fold", "Schedule", "train_path"]

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class Fold(NamedTuple):
    """What a fold trains on, and the networks it starts from."""

    x: Tensor  # (n, n_features)
    y: Tensor  # (n,)
    weight: Tensor | None  # (n,)
    nets: list[nn.Module]  # N of them
    seed: int  # of the order of the rows


@dataclass(frozen=True)
class Schedule:
    """How long, how fast and in how many steps to train."""

    epochs: int
    warmup_epochs: int
    n_batches: int
    learning_rate: float
    weight_decay: float


def train_path(
    folds: Sequence[Fold], diversities: Sequence[float], schedule: Schedule
) -> list[list[Ensemble]]:
    """Return the trained ensemble of each candidate, independent training first, on each fold.

    Parameters
    ----------
    folds : sequence of Fold
        What is trained on; the networks are left as they are.
    diversities : sequence of float
        Those of the candidates after the first.
    schedule : Schedule
        How to train.

    Notes
    -----
    The sum of the groups' losses falls apart into one for each group, and AdamW steps entry by entry, so each group
    trains as if it were alone. Folds of unequal size are filled up with rows of weight zero. Where networks cannot be
    stacked they run one by one in the same loop; where they have batch normalisation, to which rows of weight zero
    would count, fold by fold.
    """
    normalised = any(isinstance(part, _BATCH_NORMS) for net in folds[0].nets for part in net.modules())
    if normalised and len(folds) > 1:
        alone = [train_path([fold], diversities, schedule) for fold in folds]
        return [[path[c][0] for path in alone] for c in range(1 + len(diversities))]
    n_groups = (1 + len(diversities)) * len(folds)
    device = folds[0].x.device
    program = _copies(folds, 1 + len(diversities)).to(device).train()
    optimizer = torch.optim.AdamW(
        [p for p in program.parameters() if p.requires_grad],
        lr=schedule.learning_rate,
        weight_decay=schedule.weight_decay,
    )
    lam = _lambdas(diversities, len(folds), len(folds[0].nets)).to(device)
    batches = _Batches(folds, 1 + len(diversities), schedule.n_batches)
    with private_generator(device, folds[0].seed):
        for epoch in range(schedule.epochs):
            for views, target, weight in batches:
                logits = program(views).unflatten(0, (n_groups, -1))  # (C K, N, B, m)
                explicit = lam if epoch >= schedule.warmup_epochs else lam[:0]
                loss = _loss(logits, target, weight, explicit)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    if not all(torch.isfinite(p).all() for p in program.parameters()):
        raise FloatingPointError(
            "the weights must stay finite; got NaN or infinity. A lower learning rate may help."
        )
    return _ensembles(program, len(folds), len(folds[0].nets))


def _loss(logits: Tensor, target: Tensor, weight: Tensor | None, lam: Tensor) -> Tensor:
    """Return the summed losses of the groups: by correlation for the last ones, as many as lambdas."""
    own = len(logits) - len(lam)
    weights = (None, None) if weight is None else (weight[:own], weight[own:])
    loss: Tensor = IndependentLoss()(logits[:own], target[:own], weights[0]).sum()
    if len(lam):
        loss = loss + correlation_loss(logits[own:], target[own:], lam=lam, weight=weights[1]).sum()
    return loss


class _Batches:
    """For each step of an epoch: a view for each network, and targets and weights (C K, B) for the groups."""

    def __init__(self, folds: Sequence[Fold], n_candidates: int, n_batches: int) -> None:
        self.folds, self.n_candidates, self.n_batches = folds, n_candidates, n_batches
        self.orders = [torch.Generator().manual_seed(fold.seed) for fold in folds]

    def __iter__(self) -> Iterator[tuple[list[Tensor], Tensor, Tensor | None]]:
        parts = [
            torch.randperm(len(fold.y), generator=order).tensor_split(self.n_batches)
            for fold, order in zip(self.folds, self.orders, strict=True)
        ]
        for rows in zip(*parts, strict=True):
            yield self.batch([part.to(fold.x.device) for part, fold in zip(rows, self.folds, strict=True)])

    def batch(self, rows: Sequence[Tensor]) -> tuple[list[Tensor], Tensor, Tensor | None]:
        size = max(map(len, rows))
        filled = [F.pad(part, (0, size - len(part))) for part in rows]
        xs = [fold.x[part] for fold, part in zip(self.folds, filled, strict=True)]
        views = [x for x in xs for _ in self.folds[0].nets] * self.n_candidates
        target = torch.stack([fold.y[part] for fold, part in zip(self.folds, filled, strict=True)])
        target = target.repeat(self.n_candidates, 1)
        if all(fold.weight is None for fold in self.folds) and min(map(len, rows)) == size:
            return views, target, None
        weights = [
            F.pad(_weight(fold)[part], (0, size - len(part)))
            for fold, part in zip(self.folds, rows, strict=True)
        ]
        return views, target, torch.stack(weights).repeat(self.n_candidates, 1)


def _weight(fold: Fold) -> Tensor:
    return torch.ones_like(fold.x[:, 0]) if fold.weight is None else fold.weight


def _copies(folds: Sequence[Fold], n_candidates: int) -> Ensemble:
    """Return all networks of all groups as one ensemble, which holds copies."""
    return Ensemble([copy.deepcopy(net) for _ in range(n_candidates) for fold in folds for net in fold.nets])


def _lambdas(diversities: Sequence[float], n_folds: int, n_learners: int) -> Tensor:
    critical = float(critical_lambda(n_learners)) if n_learners > 1 else 0.0
    return torch.tensor([diversity * critical for diversity in diversities]).repeat_interleave(n_folds)


def _ensembles(program: Ensemble, n_folds: int, n_learners: int) -> list[list[Ensemble]]:
    learners = program.eval().learners
    device = next(program.parameters()).device
    groups = [
        Ensemble(learners[start : start + n_learners]).to(device).eval()
        for start in range(0, len(learners), n_learners)
    ]
    return [groups[start : start + n_folds] for start in range(0, len(groups), n_folds)]
