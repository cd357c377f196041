"""Very many small networks, trained on all rows at each step.

Notation: K folds; C losses; N networks in a group, which is a fold with a loss; F features, h hidden units, m classes
and n rows. All rows are in every fold, those that it tests with weight zero in the loss. So all networks of a fold
read one copy of its rows, nothing is filled up, and what the networks say of the test rows is there at the end.
"""

import math
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from counterpoint.theory import critical_lambda
from counterpoint.training import IndependentLoss, JointLoss, Readout, correlation_loss, correlations

PLAIN = MappingProxyType({"independent": IndependentLoss(), "joint": JointLoss()})  # losses of cross-entropy
_MOST_NUMBERS = 2**26  # that are read out and measured in one piece


class Task(NamedTuple):
    """What the folds train on and test."""

    x: Tensor  # (K, F, n), the rows as each fold sees them
    y: Tensor  # (n,), their classes
    train: Tensor  # (K, n), one for the rows that a fold trains on, zero for those that it tests


class Steps(NamedTuple):
    """How many steps of AdamW, and of which kind."""

    n_steps: int
    learning_rate: float
    weight_decay: float


class Measured(NamedTuple):
    """What the groups do, (K, C): errors on the rows they test, the rest on the rows they were trained on."""

    soft: Tensor  # wrong answers of the averaged probabilities
    hard: Tensor  # of the most votes; of k classes that tie each is right by 1/k
    learner: Tensor  # accuracy of a learner
    vote: Tensor  # accuracy of the averaged probabilities
    r_tl: Tensor
    r_ll: Tensor


class Perceptrons(nn.Module):
    """Groups of networks with one hidden layer; groups of one fold start from the same weights.

    Parameters
    ----------
    n_folds, n_losses, n_learners : int
        K, C and N.
    sizes : tuple of int
        F, h and m.
    seed : int
        What the weights are drawn from, as those of ``nn.Linear`` are, on the CPU: the same on every device.

    Examples
    --------
    >>> nets = Perceptrons(2, 3, 5, (4, 8, 3), seed=0)
    >>> nets(torch.zeros(2, 4, 10)).shape  # two folds with ten rows
    torch.Size([2, 3, 5, 10, 3])
    """

    def __init__(
        self, n_folds: int, n_losses: int, n_learners: int, sizes: tuple[int, int, int], seed: int
    ) -> None:
        super().__init__()
        n_features, n_hidden, n_classes = sizes
        generator = torch.Generator().manual_seed(seed)

        def draw(rows: int, columns: int, inputs: int) -> nn.Parameter:
            bound = 1 / math.sqrt(inputs)
            drawn = torch.empty(n_folds, 1, n_learners, rows, columns).uniform_(
                -bound, bound, generator=generator
            )
            return nn.Parameter(drawn.repeat(1, n_losses, 1, 1, 1))

        self.weight = draw(n_hidden, n_features, n_features)  # (K, C, N, h, F)
        self.bias = draw(n_hidden, 1, n_features)
        self.out_weight = draw(n_classes, n_hidden, n_hidden)  # (K, C, N, m, h)
        self.out_bias = draw(n_classes, 1, n_hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (K, C, N, n, m) for rows (K, F, n), those of each fold."""
        groups, n_hidden = self.weight.shape[:3], self.weight.shape[3]
        # One product for each fold, as wide as all hidden units of its networks.
        hidden = torch.baddbmm(self.bias.flatten(1, 3), self.weight.flatten(1, 3), x).relu_()
        logits = torch.baddbmm(
            self.out_bias.flatten(0, 2), self.out_weight.flatten(0, 2), hidden.view(-1, n_hidden, x.shape[2])
        )
        return logits.view(*groups, *logits.shape[1:]).mT


def train(nets: Perceptrons, task: Task, losses: Sequence[str], steps: Steps) -> None:
    """Train each group of a fold by a loss of its own.

    Parameters
    ----------
    nets : Perceptrons
        With as many losses.
    task : Task
        What to train on.
    losses : sequence of str
        Those of ``PLAIN`` that are wanted first, then diversities: weights of the learner-learner correlation, as
        shares of the critical one.
    steps : Steps
        How to train.

    Notes
    -----
    The sum of the groups' losses falls apart into one for each, and AdamW steps entry by entry: each group trains as if
    it were alone.
    """
    n_plain = count_plain(losses)
    critical = float(critical_lambda(nets.weight.shape[2]))
    lam = critical * torch.tensor([float(loss) for loss in losses[n_plain:]], device=task.x.device)
    target = task.y.expand_as(task.train)
    each_target, each_weight = (t[:, None].expand(-1, len(lam), -1) for t in (target, task.train))
    optimizer = torch.optim.AdamW(nets.parameters(), lr=steps.learning_rate, weight_decay=steps.weight_decay)
    for _ in range(steps.n_steps):
        *plain, rest = torch.split(nets(task.x), [1] * n_plain + [len(lam)], dim=1)
        parts = [
            PLAIN[loss](logits.squeeze(1), target, task.train).sum()
            for loss, logits in zip(losses[:n_plain], plain, strict=True)
        ]
        if len(lam):
            parts.append(correlation_loss(rest, each_target, lam=lam, sample_weight=each_weight).sum())
        optimizer.zero_grad(set_to_none=True)
        torch.stack(parts).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def count_plain(losses: Sequence[str]) -> int:
    """Return how many of the losses, which come first, are those of cross-entropy.

    Examples
    --------
    >>> count_plain(["independent", "0", "0.9"])
    1
    """
    return sum(loss in PLAIN for loss in losses)


@torch.no_grad()
def measure(nets: Perceptrons, task: Task, n_raw: int) -> Measured:
    """Return what the groups do, after a read-out for all but the first ``n_raw`` of each fold."""
    found = [
        _measure(_read_out(logits, task.y, train, n_raw).softmax(-1), task.y, train)
        for logits, train in _pieces(nets(task.x), task.train)
    ]
    return Measured(*(torch.cat(parts).cpu() for parts in zip(*found, strict=True)))


def _pieces(logits: Tensor, train: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut the folds into pieces that are small enough to copy a few times."""
    n_folds = max(_MOST_NUMBERS // logits[0].numel(), 1)
    return zip(torch.split(logits, n_folds), torch.split(train, n_folds), strict=True)


def _read_out(logits: Tensor, y: Tensor, train: Tensor, n_raw: int) -> Tensor:
    """Give all groups but the first a scale and class offsets from their training rows."""
    raw, rest = logits[:, :n_raw], logits[:, n_raw:]
    if not rest.numel():
        return logits
    each = rest.flatten(0, 2)  # (learners, n, m)
    own = train[:, None].expand(-1, each.shape[0] // len(train), -1).flatten(0, 1)
    start = Readout.identity(len(each), each.shape[-1]).to(each.device)
    readout = start.refit(each, y, own)
    return torch.cat([raw, readout(each).view_as(rest)], dim=1)


def _measure(proba: Tensor, y: Tensor, train: Tensor) -> Measured:
    """Measure probabilities (K, C, N, n, m)."""
    n_classes = proba.shape[-1]
    weight = train[:, None].expand(-1, proba.shape[1], -1)  # (K, C, n)
    labels = proba.argmax(-1)
    vote = proba.mean(2).argmax(-1) == y
    counts = torch.stack([(labels == k).sum(2) for k in range(n_classes)], -1)  # (K, C, n, m)
    most = counts == counts.amax(-1, keepdim=True)
    right = most.gather(-1, y.expand(counts.shape[:-1]).unsqueeze(-1)).squeeze(-1) / most.sum(-1)
    n_train = weight.sum(-1)
    r_tl, r_ll = correlations(proba, y.expand_as(weight), sample_weight=weight)
    return Measured(
        soft=((~vote) * (1 - weight)).sum(-1),
        hard=((1 - right) * (1 - weight)).sum(-1),
        learner=((labels == y).float().mean(2) * weight).sum(-1) / n_train,
        vote=(vote * weight).sum(-1) / n_train,
        r_tl=r_tl,
        r_ll=r_ll,
    )
