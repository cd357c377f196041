"""Groups of ensembles whose networks run as one batched program.

Notation: K folds, each with data and initial networks; G groups, each a fold with a loss; N networks in a group. The
networks of a group are consecutive among all G N. Groups of one fold start from the same weights and see the same
batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from counterpoint._validation import check_whole
from counterpoint.training.arguments import check_loss
from counterpoint.training.batches import find_generators
from counterpoint.training.checkpoint import restore_rng_state, rng_state
from counterpoint.training.ensemble import Ensemble
from counterpoint.training.ensemble_loss import EnsembleLoss
from counterpoint.training.group_batches import BatchFold, Fold, GroupBatch, StreamedBatches
from counterpoint.training.group_networks import GroupNetworks
from counterpoint.training.modules import evaluating, rows_at_once
from counterpoint.training.precision import autocast
from counterpoint.training.readout import Readout
from counterpoint.training.threads import Threads, most_threads
from counterpoint.training.voting import Vote

__all__ = ["Group", "GroupedEnsembles"]

_READOUT_SAMPLES = 10_000  # of a stream of batches, to fit a read-out


class Group(NamedTuple):
    """An ensemble to train: a fold and a loss.

    Groups whose losses differ only in their diversity are computed together.

    Parameters
    ----------
    fold : Fold or BatchFold
        Data and initial networks. Groups that are given the same object share its batches.
    loss : EnsembleLoss
        The loss.
    warmup_epochs : int, default=0
        Number of initial epochs with independent training.
    weight_decay : float, optional
        Weight decay of the group; by default that of the schedule.

    Examples
    --------
    >>> from counterpoint.training import DiversityLoss, mlp
    >>> fold = Fold(torch.randn(20, 4), torch.arange(20) % 2, None, [mlp([4, 8, 2]) for _ in range(3)])
    >>> groups = [Group(fold, DiversityLoss(d), weight_decay=0.01) for d in (0.0, 0.5, 0.9)]
    >>> len(groups)
    3
    """

    fold: Fold | BatchFold
    loss: EnsembleLoss
    warmup_epochs: int = 0
    weight_decay: float | None = None


class GroupedEnsembles:
    """The networks of all groups, run as one program.

    Parameters
    ----------
    groups : sequence of Group
        Ensembles with equal numbers of networks. The networks are copied.

    Attributes
    ----------
    groups : sequence of Group
        The groups.
    n_learners : int
        Number of networks in a group.
    networks : GroupNetworks
        All networks, group by group.
    device : torch.device
        Where they are.

    Examples
    --------
    >>> from counterpoint.training import DiversityLoss, mlp
    >>> fold = Fold(torch.randn(20, 4), torch.arange(20) % 2, None, [mlp([4, 8, 2]) for _ in range(3)])
    >>> grouped = GroupedEnsembles([Group(fold, DiversityLoss(d)) for d in (0.0, 0.9)])
    >>> [logits.shape for logits in grouped.logits(fold.x)]  # (n_learners, n_samples, n_classes)
    [torch.Size([3, 20, 2]), torch.Size([3, 20, 2])]
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        _check_groups(groups)
        self.groups = groups
        self.folds = list({id(group.fold): group.fold for group in groups}.values())
        places = {id(fold): k for k, fold in enumerate(self.folds)}
        self.n_learners = len(self.folds[0].networks)
        self.device = self.folds[0].device
        # Apple's GPUs have no double precision.
        self.dtype = torch.float32 if self.device.type == "mps" else torch.float64
        fold_of = [places[id(group.fold)] for group in groups]
        self.fold_of = torch.tensor(fold_of, device=self.device)
        # The losses of all groups are checked against the first.
        activation = "regression" if groups[0].loss.activation == "regression" else "softmax"
        networks = GroupNetworks([fold.networks for fold in self.folds], fold_of, activation)
        self.networks = networks.to(self.device).train()
        for group in groups:
            check_loss(group.loss, self.networks)
        self._inputs = self.networks.inputs(fold_of)
        learners = range(self.n_learners)
        self._views = self.networks.inputs([k * self.n_learners + i for k in fold_of for i in learners])
        self._readouts: list[Readout | None] | None = None

    def forward(self, batch: GroupBatch) -> Tensor:
        """Return the logits (G, N, B, m) of a batch of each fold."""
        return self._run(batch.x, self._views if batch.views else self._inputs)

    def logits(self, xs: Tensor | Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs of the networks of each group, (N, n, m), in evaluation mode.

        Parameters
        ----------
        xs : Tensor, or sequence of Tensor
            Inputs (n, ...) for all groups, or those of each group.
        """
        each = [xs] * len(self.groups) if isinstance(xs, Tensor) else list(xs)
        if len(each) != len(self.groups):
            raise ValueError(f"`xs` must hold inputs for each of {len(self.groups)} groups; got {len(each)}.")
        distinct = {id(x): x for x in each}
        places = {key: place for place, key in enumerate(distinct)}
        inputs = self.networks.inputs([places[id(x)] for x in each])
        rows = nn.utils.rnn.pad_sequence(list(distinct.values()), batch_first=True)
        parts = torch.split(rows, self._rows_at_once(rows), dim=1)
        with evaluating(self.networks), autocast("float32", self.device):
            found = torch.cat(self._run_each(parts, inputs), dim=2)
        return [logits[:, : len(x)] for logits, x in zip(found, each, strict=True)]

    def readouts(self) -> list[Readout | None]:
        """Return the read-out of each group, None where the loss needs none.

        They are fitted to the training data, once for the weights of an epoch.
        """
        if self._readouts is None:
            self._readouts = self._fit_readouts()
        return self._readouts

    def proba(self, xs: Tensor | Sequence[Tensor]) -> list[Tensor]:
        """Return the learners' own probabilities in each group, (N, n, m); ``xs`` as for :meth:`logits`."""
        self.networks._check_probabilities()
        return [
            (logits if readout is None else readout(logits)).to(self.dtype).softmax(-1)
            for logits, readout in zip(self.logits(xs), self.readouts(), strict=True)
        ]

    def votes(self, xs: Tensor | Sequence[Tensor]) -> list[Tensor]:
        """Return the probabilities, or numbers, of each group's vote, (n, m); ``xs`` as for :meth:`logits`."""
        return [
            Vote(group.loss.voting, self.networks.activation, readout=readout)(logits.to(self.dtype))
            for group, logits, readout in zip(self.groups, self.logits(xs), self.readouts(), strict=True)
        ]

    def ensembles(self, voting: str = "auto") -> list[Ensemble]:
        """Return each group as an :class:`Ensemble`; by default it votes as its loss has trained it to."""
        learners, n = self.networks.eval().learners, self.n_learners
        found = []
        for g, (group, readout) in enumerate(zip(self.groups, self.readouts(), strict=True)):
            own = learners[g * n : (g + 1) * n]
            ensemble = Ensemble(own, voting=voting, activation=self.networks.activation)
            ensemble.to(self.device).eval().trained_by(group.loss)
            ensemble.readout = readout
            found.append(ensemble)
        return found

    def weights_changed(self) -> None:
        """Discard the read-outs, which belong to the weights that they were fitted with."""
        self._readouts = None

    def _run(self, x: Tensor, inputs: Sequence[Tensor | list[int] | None]) -> Tensor:
        """Return the logits (G, N, B, m) of inputs (S, B, ...)."""
        return cast(Tensor, self.networks(x, inputs).unflatten(0, (len(self.groups), -1)))

    def _run_each(self, parts: Sequence[Tensor], inputs: Sequence[Tensor | list[int] | None]) -> list[Tensor]:
        """Return the logits of inputs in parts, which threads of the CPU share, without gradients."""
        if not self._in_threads or len(parts) == 1:
            return [self._run(x, inputs) for x in parts]
        run = torch.no_grad()(self._run)  # gradients are a setting of each thread
        with Threads(self.device) as threads, threads.workers(len(parts)) as pool:
            return list(pool.map(run, parts, repeat(inputs)))

    def _rows_at_once(self, x: Tensor) -> int:
        """Return how many of the rows (..., n, *sample) fit into one pass, of those that threads run side by side."""
        n_passes = most_threads() if self._in_threads else 1
        n_networks = len(self.groups) * self.n_learners
        return max(1, rows_at_once(self.networks, x.shape[2:], n_networks) // n_passes)

    @property
    def _in_threads(self) -> bool:
        """Whether threads share the passes."""
        return self.device.type == "cpu" and self.networks.is_stacked

    @torch.no_grad()
    def _fit_readouts(self) -> list[Readout | None]:
        found: list[Readout | None] = [None] * len(self.groups)
        needed = [g for g, group in enumerate(self.groups) if group.loss.needs_readout]
        if not needed:
            return found
        trained, samples = self._training_logits()
        for k, (y, weight) in enumerate(samples):
            some = [g for g in needed if self.fold_of[g] == k]
            if not some:
                continue
            logits = torch.cat([trained[g] for g in some])
            start = Readout.identity(len(logits), max(logits.shape[-1], 2)).to(self.device)
            together = start.refit(logits, y, weight)
            scales, offsets = (torch.split(t, self.n_learners) for t in (together.scale, together.offset))
            for g, scale, offset in zip(some, scales, offsets, strict=True):
                found[g] = Readout(scale, offset).refit_pool(trained[g], y, weight)
        return found

    def _training_logits(self) -> tuple[list[Tensor], list[tuple[Tensor, Tensor | None]]]:
        """Return the logits of each group for training samples, and the classes and weights of each fold."""
        if isinstance(self.folds[0], Fold):
            rows = cast(list[Fold], self.folds)
            logits = self.logits([cast(Fold, group.fold).x for group in self.groups])
            return logits, [(fold.y, fold.sample_weight) for fold in rows]
        streams = cast(list[BatchFold], self.folds)
        own = [one for fold in streams for one in find_generators(fold.batches)]
        before = rng_state(self.device, own)
        seen: list[tuple[Tensor, GroupBatch]] = []
        with evaluating(self.networks), autocast("float32", self.device):
            for batch in StreamedBatches(streams):
                seen.append((self.forward(batch), batch))
                if sum(one.y.shape[1] for _, one in seen) >= _READOUT_SAMPLES:
                    break
        restore_rng_state(before, self.device, own)  # as if the batches had not been drawn
        y = torch.cat([batch.y for _, batch in seen], 1)
        y = y.argmax(-1) if y.dim() == 3 else y
        known = [batch.sample_weight for _, batch in seen if batch.sample_weight is not None]
        weights = list(torch.cat(known, 1)) if known else [None] * len(y)
        return list(torch.cat([logits for logits, _ in seen], 2)), list(zip(y, weights, strict=True))


def _check_groups(groups: Sequence[Group]) -> None:
    """Refuse groups that cannot train as one program."""
    if not groups or not all(isinstance(group, Group) for group in groups):
        raise TypeError(f"`groups` must be a list of at least one Group; got {groups!r:.80}.")
    kinds = {type(group.fold) for group in groups}
    if not kinds < {Fold, BatchFold}:
        raise TypeError(
            "`groups` must have a Fold each, or a BatchFold each; got "
            f"{' and '.join(sorted(kind.__name__ for kind in kinds))}."
        )
    for group in groups:
        if not isinstance(group.loss, EnsembleLoss):
            raise TypeError(f"`loss` must be an EnsembleLoss; got {group.loss!r}.")
        check_whole(group.warmup_epochs, "warmup_epochs", minimum=0)
        _check_fold(group.fold)
    sizes = sorted({len(group.fold.networks) for group in groups})
    if len(sizes) > 1:
        raise ValueError(f"`networks` must be as many in each fold; got {sizes[0]} and {sizes[-1]}.")
    devices = sorted({str(group.fold.device) for group in groups})
    if len(devices) > 1:
        raise ValueError(f"`groups` must have their folds on one device; got {' and '.join(devices)}.")


def _check_fold(fold: Fold | BatchFold) -> None:
    if not fold.networks or not all(isinstance(network, nn.Module) for network in fold.networks):
        raise TypeError(f"`networks` must be a list of at least one torch Module; got {fold.networks!r:.80}.")
    if isinstance(fold, Fold):
        lengths = {len(part) for part in (fold.x, fold.y, fold.sample_weight) if part is not None}
        if len(lengths) > 1:
            raise ValueError(
                f"`x`, `y` and `sample_weight` must have one length; got {len(fold.x)} and {len(fold.y)} rows."
            )
        weight = fold.sample_weight
        if weight is not None and len(weight) and not (least := weight.min()) >= 0:
            raise ValueError(f"`sample_weight` must be 0 or more for each sample; got {least.item()}.")
    elif isinstance(fold.batches, Iterator) or not isinstance(fold.batches, Iterable):
        raise TypeError(
            f"`batches` must be an iterable that starts anew in each epoch, such as a DataLoader; got {fold.batches!r}."
        )
