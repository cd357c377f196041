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

__all__ = ["GroupNetworks", "Part"]


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
    parts : ModuleList of Part
        The programs.

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

    def __init__(
        self, folds: Sequence[Sequence[nn.Module]], fold_of: Sequence[int], activation: str
    ) -> None:
        n = len(folds[0])
        super().__init__(len(fold_of) * n, "auto", None, activation)
        networks = [network for fold in folds for network in fold]
        start = [fold * n + i for fold in fold_of for i in range(n)]  # the network that a learner begins as
        views = [_seen(network) for network in networks] if can_stack(networks) else [None] * len(networks)
        self.parts = nn.ModuleList()
        for view in dict.fromkeys(views):
            places = [place for place, k in enumerate(start) if views[k] == view]
            places.sort(key=lambda place: start[place] // n)
            self.parts.append(Part(networks, [start[place] for place in places], places, view))
        places = [place for part in self.parts for place in part.places]
        ordered = places == list(range(len(places)))
        self.register_buffer("_order", None if ordered else torch.tensor(places).argsort())

    def forward(self, x: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """Return the logits of all networks, (G N, B, m), group by group.

        Parameters
        ----------
        x : Tensor, shape (S, B, ...)
            Inputs, some of which several groups may share.
        inputs : sequence of Tensor
            Which network sees which, by :meth:`inputs`.
        """
        found = [part(x, rows) for part, rows in zip(self.parts, inputs, strict=True)]
        if self._order is None:
            return cast(Tensor, found[0])
        # The batch comes last in memory, as in stacked networks.
        columns = torch.cat([logits.mT for logits in found])
        return columns.index_select(0, self._order).mT

    def inputs(self, sources: Sequence[int]) -> list[Tensor]:
        """Return which networks see which inputs, for each part, given the input of each group or each network."""
        each = self.n_learners // len(sources)
        rows = [[sources[place // each] for place in part.places] for part in self.parts]
        return [torch.tensor(_blocks(own), device=self.weights.device) for own in rows]

    @property
    def is_stacked(self) -> bool:
        """Whether the networks run as batched programs."""
        return all(part.ensemble.is_stacked for part in self.parts)

    @property
    def learners(self) -> list[nn.Module]:
        """The networks as ordinary modules, group by group; copies of the present values where they are stacked."""
        found = {place: network for part in self.parts for place, network in part.learners()}
        return [found[place] for place in range(self.n_learners)]


class Part(nn.Module):
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

    def __init__(
        self,
        networks: Sequence[nn.Module],
        start: Sequence[int],
        places: Sequence[int],
        seen: tuple[int, ...] | None,
    ) -> None:
        super().__init__()
        self.places, self._initial = places, [networks[k] for k in start]
        self.register_buffer("_seen", None if seen is None else torch.tensor(seen))
        own = {k: _slim(networks[k], seen) for k in dict.fromkeys(start)}
        numbers = {k: number for number, k in enumerate(own)}
        self.ensemble = _copies(list(own.values()), [numbers[k] for k in start])

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return the logits of the networks, equal blocks of which see the rows ``x[rows]``."""
        if self._seen is not None:
            x = x.index_select(-1, self._seen)
        if isinstance(self.ensemble.body, Stacked):
            return self.ensemble.body(x.index_select(0, rows), own=True)
        size = self.ensemble.n_learners // len(rows)
        return cast(Tensor, self.ensemble([x[k] for k in rows.tolist() for _ in range(size)]))

    def learners(self) -> list[tuple[int, nn.Module]]:
        """Return the networks as ordinary modules, with their places."""
        found = zip(self._initial, self.ensemble.learners, strict=True)
        whole = [trained if self._seen is None else self._widened(initial, trained) for initial, trained in found]
        return list(zip(self.places, whole, strict=True))

    @torch.no_grad()
    def _widened(self, initial: Any, trained: Any) -> nn.Module:
        """Return a trained network with the columns that it does not see."""
        network, first = copy.deepcopy(initial), trained[0]
        weight = network[1].weight.to(first.weight).index_copy(1, self._seen, first.weight)
        network[1].weight, network[1].bias = nn.Parameter(weight, first.weight.requires_grad), first.bias
        network[2:] = trained[1:]
        return network.to(weight.device).train(trained.training)


def _seen(network: nn.Module) -> tuple[int, ...] | None:
    """Return the columns that a network sees, or None where they are not known from its first two layers."""
    if type(network) is not nn.Sequential or len(network) < 2:
        return None
    mask, first = network[0], network[1]
    if type(mask) is not FeatureMask or type(first) is not nn.Linear or mask.weight.requires_grad:
        return None
    weight = mask.weight.detach().cpu()
    return tuple(weight.nonzero()[:, 0].tolist()) if ((weight == 0) | (weight == 1)).all() else None


def _slim(network: Any, seen: tuple[int, ...] | None) -> nn.Module:
    """Return a network of the columns that are seen, or the network itself if all are."""
    if seen is None:
        return cast(nn.Module, network)
    first = copy.deepcopy(network[1])
    first.weight = nn.Parameter(first.weight.detach()[:, list(seen)], first.weight.requires_grad)
    first.in_features = len(seen)
    return nn.Sequential(first, *network[2:]).train(network.training)


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


def _blocks(rows: list[int]) -> list[int]:
    """Return the inputs of equal blocks of consecutive networks, as few as there can be.

    Examples
    --------
    >>> _blocks([1, 1, 0, 0]), _blocks([0, 1, 0, 1])
    ([1, 0], [0, 1, 0, 1])
    """
    few = list(dict.fromkeys(rows))
    size = len(rows) // len(few)
    return few if rows == [row for row in few for _ in range(size)] else rows
