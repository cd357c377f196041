"""The networks of groups of ensembles, as few batched programs.

Notation: G groups with N networks each, S inputs, B samples. Equal networks are stacked, and in a stack those of one
fold are neighbours: they see the same rows, so that a first linear layer is one product for each fold. Networks that
see some of the columns, by a :class:`~counterpoint.training.networks.FeatureMask`, have a stack for each set of
columns, without the weights of the others.
"""

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from counterpoint.training.ensemble import Ensemble, Voters
from counterpoint.training.networks import FeatureMask
from counterpoint.training.stacked import Stacked, can_stack

__all__ = ["GroupNetworks"]

# The inputs of networks, those of each, or None where equal blocks of networks see one after the other.
_Rows = Tensor | list[int] | None


class GroupNetworks(Voters):
    """Copies of the networks of folds, for groups that each train on one of them.

    Parameters
    ----------
    folds : sequence of sequences of Module
        The networks of each fold, N in each.
    fold_of : sequence of int
        The fold of each group.
    activation : {"softmax", "regression"}
        As for :class:`~counterpoint.training.Ensemble`.

    Attributes
    ----------
    parts : list
        The programs, each with the ``places`` of its networks among all.

    Notes
    -----
    Weights of columns that a network does not see have no effect. They are not trained and do not decay.

    Examples
    --------
    >>> from counterpoint.training import mlp
    >>> folds = [[mlp([4, 8, 2]) for _ in range(3)] for _ in range(2)]
    >>> networks = GroupNetworks(folds, [0, 1, 0, 1], "softmax")
    >>> x = torch.randn(2, 20, 4)  # the rows of each fold
    >>> networks(x, networks.inputs([0, 1, 0, 1])).shape
    torch.Size([12, 20, 2])
    """

    _order: Tensor | None

    def __init__(self, folds: Sequence[Sequence[nn.Module]], fold_of: Sequence[int], activation: str) -> None:
        n = len(folds[0])
        super().__init__(len(fold_of) * n, "auto", None, activation)
        networks = [network for fold in folds for network in fold]
        start = [fold * n + i for fold in fold_of for i in range(n)]  # the network that each begins as
        by_fold = sorted(range(len(start)), key=lambda place: start[place] // n)
        views = _views(networks)
        sets = [[place for place in by_fold if views[start[place]] == view] for view in dict.fromkeys(views)]
        if min(map(len, sets)) == 1:  # a stack has several networks
            views, sets = [None] * len(networks), [by_fold]
        self.parts = [
            _Part(networks, [start[place] for place in places], places, views[start[places[0]]])
            for places in sets
        ]
        self._programs = nn.ModuleList(self.parts)  # a list by itself would not be a part of this module
        order = torch.tensor([place for places in sets for place in places]).argsort()
        ordered = torch.equal(order, torch.arange(len(order)))
        self.register_buffer("_order", None if ordered else order, persistent=False)

    def forward(self, x: Tensor, inputs: Sequence[_Rows]) -> Tensor:
        """Return the logits of all networks, (G N, B, m), group by group.

        Parameters
        ----------
        x : Tensor, shape (S, B, ...)
            Inputs, some of which several groups may share.
        inputs : sequence
            Which network sees which, from :meth:`inputs`.
        """
        found: list[Tensor] = [part(x, rows) for part, rows in zip(self.parts, inputs, strict=True)]
        if self._order is None:
            return found[0]
        # The batch comes last in memory, as in stacked networks.
        columns = torch.cat([logits.mT for logits in found])
        return columns.index_select(0, self._order).mT

    def inputs(self, sources: Sequence[int]) -> list[_Rows]:
        """Return which networks of each part see which inputs, given the input of each group or of each network."""
        each, n_inputs = self.n_learners // len(sources), max(sources) + 1
        return [
            part.inputs([sources[place // each] for place in part.places], n_inputs) for part in self.parts
        ]

    @property
    def is_stacked(self) -> bool:
        """Whether the networks run as batched programs."""
        return all(part.ensemble.is_stacked for part in self.parts)

    @property
    def learners(self) -> list[nn.Module]:
        """The networks as ordinary modules, group by group; copies of the present values where they are stacked."""
        found = [network for part in self.parts for network in part.learners()]
        return found if self._order is None else [found[k] for k in self._order.tolist()]


class _Part(nn.Module):
    """Networks that see the same columns.

    Parameters
    ----------
    networks : sequence of Module
        The initial networks.
    start : sequence of int
        Which of them each network of the part begins as.
    places : sequence of int
        Places of the networks among those of all groups.
    seen : tuple of int, optional
        The columns that they see; by default all, as they are given.
    """

    _seen: Tensor | None

    def __init__(
        self,
        networks: Sequence[nn.Module],
        start: Sequence[int],
        places: Sequence[int],
        seen: tuple[int, ...] | None,
    ) -> None:
        super().__init__()
        self.places, self._initial = places, [networks[k] for k in start]
        self.register_buffer(
            "_seen", None if seen is None else torch.tensor(seen, dtype=torch.int64), persistent=False
        )
        own = {k: _slim(networks[k], seen) for k in dict.fromkeys(start)}
        numbers = {k: number for number, k in enumerate(own)}
        self.ensemble = _copies(list(own.values()), [numbers[k] for k in start])

    def inputs(self, rows: list[int], n_inputs: int) -> _Rows:
        """Return the inputs of the networks, given that of each: where they are stacked, of equal blocks of them."""
        if not self.ensemble.is_stacked:
            return rows
        few = list(dict.fromkeys(rows))
        size = len(rows) // len(few)
        if rows == [row for row in few for _ in range(size)]:
            rows = few
        return (
            None if rows == list(range(n_inputs)) else torch.tensor(rows, device=self.ensemble.weights.device)
        )

    def forward(self, x: Tensor, rows: _Rows) -> Tensor:
        """Return the logits of the networks, which see ``x[rows]``, or all of ``x``."""
        if self._seen is not None:
            x = x.index_select(-1, self._seen)
        if isinstance(self.ensemble.body, Stacked):
            x = x.index_select(0, rows) if isinstance(rows, Tensor) else x
            return cast(Tensor, self.ensemble.body(x, own=True))
        return cast(Tensor, self.ensemble([x[k] for k in cast(list[int], rows)]))

    def learners(self) -> list[nn.Module]:
        """Return the networks as ordinary modules."""
        found = self.ensemble.learners
        if self._seen is None:
            return found
        return [_widened(*both, self._seen) for both in zip(self._initial, found, strict=True)]


def _views(networks: Sequence[nn.Module]) -> list[tuple[int, ...] | None]:
    """Return the columns that each network sees, or None where its first two layers do not tell."""
    first: Any = networks[0]
    if can_stack(networks) and type(first) is nn.Sequential:
        kinds = [type(layer) for layer in list(first.children())[:2]]
        if kinds == [FeatureMask, nn.Linear] and not first[0].weight.requires_grad:
            masks = torch.stack([cast(Any, network)[0].weight.detach() for network in networks]).cpu()
            if ((masks == 0) | (masks == 1)).all():
                return [tuple(mask.nonzero()[:, 0].tolist()) for mask in masks]
    return [None] * len(networks)


def _slim(network: Any, seen: tuple[int, ...] | None) -> nn.Module:
    """Return a network of the columns that are seen, or the network itself if all are."""
    if seen is None:
        return cast(nn.Module, network)
    first = copy.deepcopy(network[1])
    first.weight = nn.Parameter(first.weight.detach()[:, list(seen)], first.weight.requires_grad)
    first.in_features = len(seen)
    return nn.Sequential(first, *network[2:]).train(network.training)


@torch.no_grad()
def _widened(initial: Any, trained: Any, seen: Tensor) -> nn.Module:
    """Return a trained network of the columns that are seen, as a network of all columns."""
    mask, first = copy.deepcopy(initial[0]).to(seen.device), trained[0]
    weight = initial[1].weight.to(seen.device).index_copy(1, seen, first.weight)
    first.weight, first.in_features = nn.Parameter(weight, first.weight.requires_grad), weight.shape[1]
    return nn.Sequential(mask, *trained).train(trained.training)


def _copies(networks: Sequence[nn.Module], index: Sequence[int]) -> Ensemble:
    """Return an ensemble of copies: a network for each entry of the index."""
    stacked = Ensemble(networks)
    body = stacked.body
    if (
        isinstance(body, Stacked)
        and next(body.buffers(), None) is None
        and all(len(p) == len(networks) for p in body.parameters())
    ):
        for part in body.modules():
            for name, parameter in list(part.named_parameters(recurse=False)):
                kept = nn.Parameter(parameter.detach()[list(index)], requires_grad=parameter.requires_grad)
                setattr(part, name, kept)
        body.n_learners = stacked.n_learners = len(index)
        stacked.weights = stacked.weights.new_full((len(index),), 1 / len(index))
        return stacked
    return Ensemble([copy.deepcopy(networks[k]) for k in index])
