"""Ensembles of one size on all splits of a table: trained by several losses, and measured.

Notation: K splits; N learners in an ensemble; n rows and m classes.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpoint.training import (
    CorrelationLoss,
    EnsembleLoss,
    Group,
    GroupedEnsembles,
    IndependentLoss,
    JointLoss,
    Readout,
    Schedule,
    correlations,
)
from paper.programs import Split, fold_of, train_in_chunks

__all__ = ["BASELINE", "READ_OUT", "Measured", "Size", "make_loss", "measure", "measure_arms"]

BASELINE = "independent"
READ_OUT = "independent, read out"


class Size(NamedTuple):
    """Size of an ensemble."""

    n_learners: int
    hidden: int

    def n_parameters(self, split: Split) -> int:
        """Return the number of parameters of an ensemble for the rows of a split."""
        inputs, outputs = int(split.table.shape[1]), split.n_classes
        return self.n_learners * (self.hidden * (inputs + 1) + (self.hidden + 1) * outputs)


class Measured(NamedTuple):
    """What one ensemble does: the first two on test rows, the others on training rows."""

    soft: float  # wrong answers of the averaged probabilities
    hard: float  # wrong answers of the most votes; of k tied classes each is right by 1/k
    learner: float  # mean accuracy of a learner
    vote: float  # accuracy of the averaged probabilities
    r_tl: float
    r_ll: float


def make_loss(name: str) -> EnsembleLoss:
    """Return the loss of a name: "independent", "joint", or the diversity of the correlation loss.

    Examples
    --------
    >>> make_loss("0.9").diversity
    0.9
    """
    losses: dict[str, EnsembleLoss] = {BASELINE: IndependentLoss(), "joint": JointLoss()}
    return losses[name] if name in losses else CorrelationLoss(float(name))


def measure_arms(
    splits: Sequence[Split],
    losses: Sequence[str],
    size: Size,
    schedule: Schedule,
    device: torch.device,
    *,
    read_out: bool = False,
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Train an ensemble by each loss on each split, and return what each arm does.

    Parameters
    ----------
    splits : sequence of Split
        Rows, all of the same number of columns.
    losses : sequence of str
        The arms, by names that :func:`make_loss` knows. Ensembles of a split start from the same networks.
    size : Size
        Size of each ensemble.
    schedule : Schedule
        How to train.
    device : torch.device
        Where to train.
    read_out : bool, default=False
        Whether to add ``READ_OUT``: independent networks with a read-out, as those of the correlation loss have one.

    Returns
    -------
    dict of str to dict of str to array of shape (K,)
        The fields of :class:`Measured` by arm.
    """
    folds = [fold_of(split, *size, device) for split in splits]
    arms = [(name, make_loss(name)) for name in losses]
    groups = [Group(fold, loss) for fold in folds for _, loss in arms]
    labels = [(name, split) for split in splits for name in losses]
    found: dict[str, list[Measured]] = {}
    for chunk, program in train_in_chunks(groups, schedule):
        for name, proba, split in _probabilities(program, labels[chunk], device, read_out=read_out):
            found.setdefault(name, []).append(measure(proba, split))
    return {
        name: dict(zip(Measured._fields, np.transpose(some), strict=True)) for name, some in found.items()
    }


@torch.no_grad()
def _probabilities(
    program: GroupedEnsembles, labels: Sequence[tuple[str, Split]], device: torch.device, *, read_out: bool
) -> Iterator[tuple[str, Tensor, Split]]:
    """Yield the learners' probabilities (N, n, m) for training rows, then test rows, by arm and split."""
    rows = [torch.cat(split.tensors(device)[::2]) for _, split in labels]
    for (name, split), proba in zip(labels, program.proba(rows), strict=True):
        yield name, proba, split
    if not read_out:
        return
    for (name, split), logits in zip(labels, program.logits(rows), strict=True):
        if name == BASELINE:
            n_learners, _, n_classes = logits.shape
            start = Readout.identity(n_learners, n_classes).to(device)
            target = torch.as_tensor(split.labels, device=device)
            readout = start.refit(logits[:, : len(target)], target, None)
            yield READ_OUT, readout(logits).double().softmax(-1), split


def measure(proba: Tensor, split: Split) -> Measured:
    """Measure the probabilities (N, n, m) of an ensemble for the training rows of a split, then its test rows."""
    truth = torch.as_tensor(np.concatenate([split.labels, split.test_labels]), device=proba.device)
    n_train = len(split.labels)
    answers = proba.argmax(-1)  # (N, n)
    right = proba.mean(0).argmax(-1) == truth
    counts = torch.nn.functional.one_hot(answers, split.n_classes).sum(0)  # (n, m)
    tied = counts == counts.amax(-1, keepdim=True)
    share = tied.gather(-1, truth[:, None])[:, 0].double() / tied.sum(-1)
    r_tl, r_ll = correlations(proba[:, :n_train], truth[:n_train])
    numbers = (
        (~right[n_train:]).sum(),
        (1 - share[n_train:]).sum(),
        (answers == truth)[:, :n_train].double().mean(),
        right[:n_train].double().mean(),
        r_tl,
        r_ll,
    )
    return Measured(*(float(number) for number in numbers))
