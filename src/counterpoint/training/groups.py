"""Many ensembles trained as one batched program.

Notation: K folds, the rows that are trained on and the networks to start from; G groups, each a fold with a loss; N
networks in a group. The networks of a group stand side by side among all G N. Groups of one fold start from the same
weights and see the same batches.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from counterpoint.training.device import seeded
from counterpoint.training.ensemble import Ensemble
from counterpoint.training.ensemble_loss import EnsembleLoss
from counterpoint.training.losses import IndependentLoss
from counterpoint.training.modules import evaluating
from counterpoint.training.precision import autocast
from counterpoint.training.readout import Readout
from counterpoint.training.stacked import Stacked
from counterpoint.training.voting import Vote

__all__ = ["Fold", "Group", "Program", "Schedule", "fit_groups"]

_MOST_NUMBERS = 2**28  # of an activation in one pass without gradients


class Fold(NamedTuple):
    """What a fold trains on, and the networks it starts from."""

    x: Tensor  # (n, n_features)
    y: Tensor  # (n,)
    weight: Tensor | None  # (n,)
    nets: list[nn.Module]  # N of them
    seed: int  # of the order of the rows


class Group(NamedTuple):
    """An ensemble to train: on which fold, by which loss.

    Groups whose losses are of one kind, and differ in the number of their dial alone, are computed together.
    """

    fold: Fold
    loss: EnsembleLoss
    warmup_epochs: int = 0  # of independent training, before
    weight_decay: float | None = None  # None is that of the schedule


@dataclass(frozen=True)
class Schedule:
    """How long, how fast and in how many steps to train."""

    epochs: int
    n_batches: int
    learning_rate: float
    weight_decay: float


class Program:
    """The networks of all groups, side by side.

    Attributes
    ----------
    groups : sequence of Group
        What is trained.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.folds = list({id(group.fold): group.fold for group in groups}.values())
        places = {id(fold): k for k, fold in enumerate(self.folds)}
        self.fold_of = torch.tensor([places[id(group.fold)] for group in groups])
        self.n_learners = len(self.folds[0].nets)
        self.device = self.folds[0].x.device
        self.dtype = (
            torch.float32 if self.device.type == "mps" else torch.float64
        )  # Apple's GPUs have no more
        self.net = self._copies().to(self.device).train()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (G, N, B, m) for rows (G, B, F), those of each group."""
        own = x.unsqueeze(1).expand(-1, self.n_learners, *x.shape[1:]).flatten(0, 1)
        body = self.net.body
        logits = body(own, own=True) if isinstance(body, Stacked) else self.net(list(own))
        return cast(Tensor, logits.unflatten(0, (len(self.groups), -1)))

    def logits(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """Return what the networks of each group put out, (N, n, m), for rows (n, F) of its own."""
        sizes = [len(x) for x in xs]
        rows = nn.utils.rnn.pad_sequence(list(xs), batch_first=True)
        widest = max(rows.shape[2], *(size for p in self.net.parameters() for size in p.shape[1:]))
        n_rows = max(_MOST_NUMBERS // (len(xs) * self.n_learners * widest), 1)
        with evaluating(self.net), autocast("float32", self.device):
            found = torch.cat([self.forward(part) for part in torch.split(rows, n_rows, dim=1)], dim=2)
        return [logits[:, :size] for logits, size in zip(found, sizes, strict=True)]

    def readouts(self) -> list[Readout | None]:
        """Return the read-out of each group, None where the loss needs none."""
        found: list[Readout | None] = [None] * len(self.groups)
        needed = [g for g, group in enumerate(self.groups) if group.loss.needs_readout]
        trained = self.logits([group.fold.x for group in self.groups]) if needed else []
        for k, fold in enumerate(self.folds):
            some = [g for g in needed if self.fold_of[g] == k]
            if not some:
                continue
            logits = torch.cat([trained[g] for g in some])
            n_classes = max(logits.shape[-1], 2)
            start = Readout.identity(len(logits), n_classes).to(self.device)
            together = start.refit(logits, fold.y, fold.weight)
            scales, offsets = (torch.split(t, self.n_learners) for t in (together.scale, together.offset))
            for g, scale, offset in zip(some, scales, offsets, strict=True):
                found[g] = Readout(scale, offset).refit_pool(trained[g], fold.y, fold.weight)
        return found

    def proba(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """Return the learners' own probabilities in each group, (N, n, m), for rows (n, F) of its own."""
        return [
            (logits if readout is None else readout(logits)).to(self.dtype).softmax(-1)
            for logits, readout in zip(self.logits(xs), self.readouts(), strict=True)
        ]

    def votes(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """Return the probabilities of each group's vote, (n, m), for rows (n, F) of its own."""
        return [
            Vote(group.loss.voting, readout=readout)(logits.to(self.dtype))
            for group, logits, readout in zip(self.groups, self.logits(xs), self.readouts(), strict=True)
        ]

    def ensembles(self, voting: str = "auto") -> list[Ensemble]:
        """Return the groups as ordinary ensembles, which vote as their losses have trained them to."""
        learners, n = self.net.eval().learners, self.n_learners
        found = []
        for g, (group, readout) in enumerate(zip(self.groups, self.readouts(), strict=True)):
            ensemble = Ensemble(learners[g * n : (g + 1) * n], voting=voting).to(self.device).eval()
            ensemble.trained_by(group.loss)
            ensemble.readout = readout
            found.append(ensemble)
        return found

    def _copies(self) -> Ensemble:
        """Return all networks of all groups as one ensemble, which holds copies."""
        stacked = Ensemble([net for fold in self.folds for net in fold.nets])
        n, body = self.n_learners, stacked.body
        if (
            isinstance(body, Stacked)
            and next(body.buffers(), None) is None
            and all(len(p) == len(self.folds) * n for p in body.parameters())
        ):
            chosen = (self.fold_of[:, None] * n + torch.arange(n)).flatten()
            return _chosen(stacked, body, chosen)
        return Ensemble([copy.deepcopy(net) for group in self.groups for net in group.fold.nets])


def fit_groups(
    groups: Sequence[Group],
    schedule: Schedule,
    *,
    on_epoch: Callable[[int, Program], None] | None = None,
    progress: bool = False,
) -> Program:
    """Return the program after training all groups.

    Parameters
    ----------
    groups : sequence of Group
        What to train; the networks of the folds, as many in each, are left as they are.
    schedule : Schedule
        How to train.
    on_epoch : callable, optional
        Called with the number of epochs so far and the program, after each.
    progress : bool, default=False
        Whether to show a bar over the epochs.

    Notes
    -----
    The sum of the groups' losses falls apart into one for each group, and AdamW steps entry by entry, so each group
    trains as if it were alone. Folds of unequal size are filled up with rows of weight zero, which would count to batch
    normalisation: networks with it must be trained fold by fold. A batch without rows has the loss 0.

    Examples
    --------
    >>> from counterpoint.training import DiversityLoss, IndependentLoss, mlp
    >>> x = torch.linspace(-1, 1, 40)[:, None]
    >>> y = (x[:, 0] > 0).long()
    >>> fold = Fold(x, y, None, [mlp([1, 4, 2]) for _ in range(3)], seed=0)
    >>> groups = [Group(fold, IndependentLoss()), Group(fold, DiversityLoss())]
    >>> trained = fit_groups(groups, Schedule(epochs=5, n_batches=4, learning_rate=0.05, weight_decay=0.0))
    >>> [vote.shape for vote in trained.votes([x, x])]
    [torch.Size([40, 2]), torch.Size([40, 2])]
    """
    program = Program(groups)
    optimizer, shrink = _optimizer(program, schedule)
    batches = _Batches(program, schedule.n_batches)
    with (
        seeded(program.device, program.folds[0].seed),
        autocast("float32", program.device),
        torch.enable_grad(),
    ):
        for epoch in _counted(schedule.epochs, progress):
            loss_of = _Losses(groups, epoch)
            for x, target, weight in batches:
                loss = loss_of(program.forward(x), target, weight)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                shrink()
                optimizer.step()
            if on_epoch is not None:
                on_epoch(epoch + 1, program)
    if not all(torch.isfinite(p).all() for p in program.net.parameters()):
        raise FloatingPointError(
            "the weights must stay finite; got NaN or infinity. A lower learning rate may help."
        )
    return program


class _Losses:
    """The summed losses of the groups in an epoch: a call for each kind of loss."""

    def __init__(self, groups: Sequence[Group], epoch: int) -> None:
        independent = IndependentLoss()
        kinds: dict[object, list[tuple[int, EnsembleLoss]]] = {}
        for g, group in enumerate(groups):
            loss = independent if epoch < group.warmup_epochs else group.loss
            kinds.setdefault(loss.kind, []).append((g, loss))
        fold = groups[0].fold
        self.parts = [
            (_joined([loss for _, loss in some], fold), _index([g for g, _ in some]))
            for some in kinds.values()
        ]

    def __call__(self, logits: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        total = logits.new_zeros(())
        for loss, some in self.parts:
            own = None if weight is None else weight[some]
            total = total + loss(logits[some], target[some], own).sum()
        return total


def _joined(losses: Sequence[EnsembleLoss], fold: Fold) -> EnsembleLoss:
    """Return losses of one kind as one, with a dial for each group where they differ in it."""
    dials = [loss.effective_diversity(len(fold.nets)) for loss in losses]
    if len(set(dials)) == 1:
        return losses[0]
    return losses[0].with_diversity(torch.tensor(dials, dtype=torch.float32, device=fold.x.device))


class _Batches:
    """For each step of an epoch: rows (G, B, F), targets and weights (G, B), those of each group."""

    def __init__(self, program: Program, n_batches: int) -> None:
        folds, self.device = program.folds, program.device
        self.orders = [torch.Generator().manual_seed(fold.seed) for fold in folds]
        self.sizes = [len(fold.y) for fold in folds]
        pad = nn.utils.rnn.pad_sequence
        self.x = pad([fold.x for fold in folds], batch_first=True)
        self.y = pad([fold.y for fold in folds], batch_first=True)
        self.weighted = any(fold.weight is not None for fold in folds)
        self.weight = pad([_weight(fold) for fold in folds], batch_first=True)
        self.fold_of = program.fold_of.to(self.device)
        # (steps, K, B): the place of each entry in the order of its fold; -1 where a batch is filled up
        parts = [torch.arange(size).tensor_split(n_batches) for size in self.sizes]
        filled = [pad(list(part), batch_first=True, padding_value=-1) for part in parts]
        widest = max(part.shape[1] for part in filled)
        places = torch.stack(
            [nn.functional.pad(part, (0, widest - part.shape[1]), value=-1) for part in filled], 1
        )
        self.places, self.filled = places.clamp(min=0), (places < 0).to(self.device)
        # A step is as wide as its largest batch: a fold by itself is not filled up but where a step has no rows at all.
        sizes = (places >= 0).sum(2)  # (steps, K)
        widths = sizes.amax(1).clamp(min=1)
        self.steps = list(zip(widths.tolist(), (sizes == widths[:, None]).all(1).tolist(), strict=True))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        drawn = zip(self.sizes, self.orders, strict=True)
        orders = [torch.randperm(size, generator=order) for size, order in drawn]
        rows = nn.utils.rnn.pad_sequence(orders, batch_first=True).expand(len(self.places), -1, -1)
        rows = rows.gather(2, self.places).to(self.device)  # (steps, K, B)
        folds = torch.arange(len(self.sizes), device=self.device)[:, None]
        for step, (width, full) in enumerate(self.steps):
            at = (folds, rows[step, :, :width])
            x, y = self.x[at][self.fold_of], self.y[at][self.fold_of]
            if full and not self.weighted:
                yield x, y, None
            else:
                yield x, y, self.weight[at].masked_fill(self.filled[step, :, :width], 0.0)[self.fold_of]


def _optimizer(program: Program, schedule: Schedule) -> tuple[torch.optim.Optimizer, Callable[[], None]]:
    """Return AdamW, and what shrinks the weights before its step where stacked networks differ in their decay."""
    decays = [
        schedule.weight_decay if group.weight_decay is None else group.weight_decay
        for group in program.groups
        for _ in range(program.n_learners)
    ]
    rate, body = schedule.learning_rate, program.net.body
    trained = _trained(program.net)
    if len(set(decays)) == 1:
        return torch.optim.AdamW(trained, lr=rate, weight_decay=decays[0]), lambda: None
    if not isinstance(body, Stacked):
        parts = zip(body, decays, strict=True)
        own = [{"params": _trained(net), "weight_decay": decay} for net, decay in parts]
        return torch.optim.AdamW(own, lr=rate), lambda: None
    kept = 1 - rate * torch.tensor(decays, dtype=torch.float32, device=program.device)
    # channels of the learners may stand side by side in the first axis
    factors = [kept.repeat_interleave(len(p) // len(kept)).reshape(-1, *[1] * (p.dim() - 1)) for p in trained]

    @torch.no_grad()
    def shrink() -> None:
        for parameter, factor in zip(trained, factors, strict=True):
            parameter.mul_(factor)

    return torch.optim.AdamW(trained, lr=rate, weight_decay=0.0), shrink


def _trained(net: nn.Module) -> list[nn.Parameter]:
    return [p for p in net.parameters() if p.requires_grad]


def _chosen(stacked: Ensemble, body: Stacked, index: Tensor) -> Ensemble:
    """Return the stacked ensemble with learners ``index`` in the place of its own."""
    for part in body.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            kept = nn.Parameter(parameter.detach()[index], requires_grad=parameter.requires_grad)
            setattr(part, name, kept)
    body.n_learners = stacked.n_learners = len(index)
    stacked.weights = stacked.weights.new_full((len(index),), 1 / len(index))
    return stacked


def _index(some: list[int]) -> slice | list[int]:
    """Return places as a slice where they are in a row: a view costs nothing."""
    in_a_row = some == list(range(some[0], some[0] + len(some)))
    return slice(some[0], some[-1] + 1) if in_a_row else some


def _weight(fold: Fold) -> Tensor:
    return torch.ones_like(fold.x[:, 0]) if fold.weight is None else fold.weight


def _counted(epochs: int, progress: bool) -> Iterator[int]:
    """Count the epochs, with a bar where one is wanted."""
    if not progress:
        yield from range(epochs)
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(range(epochs), "epochs", console=Console(stderr=True), transient=True)
