"""Ensembles spread over a mesh: some of the learners on each process, in the layout of the whole ensemble.

Stacked learners lie side by side on the first axis of every tensor, so a part of them is a slice; other learners are
modules of their own, so a part is some of them. Checkpoints hold the tensors of the whole ensemble by its own names and
therefore fit any mesh, and one process.
"""

import copy
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from counterpoint._validation import check_flag
from counterpoint.training import sharding
from counterpoint.training.ensemble import Ensemble, Voters
from counterpoint.training.mesh import LOCAL, Axes, as_axes
from counterpoint.training.modules import bare_name, unwrap
from counterpoint.training.stacked import Stacked

__all__ = [
    "ParallelEnsemble",
    "axes_of",
    "load_optimizer_state",
    "load_whole_state",
    "parallelize",
    "part_state",
    "whole_optimizer_state",
    "whole_state",
]

_State = Mapping[str, Any]


class ParallelEnsemble(Voters):
    """The learners of an ensemble, some on each process of a mesh.

    :func:`parallelize` makes it. ``forward`` returns the outputs of the learners of this process, which is what a loss
    on the mesh takes. ``predict`` and its kin gather the outputs of all learners, so all processes of the learner axis
    must call them, with the same inputs.

    Parameters
    ----------
    ensemble : Ensemble
        The whole ensemble.
    axes : Axes
        The mesh.
    sharded : bool, default=False
        Whether the weights of a learner are spread over the data axis.

    Attributes
    ----------
    part : Module
        The learners of this process, inside ``DistributedDataParallel`` if there is a data axis and they are not
        sharded over it.

    Examples
    --------
    >>> from counterpoint.training.mesh import LOCAL
    >>> whole = Ensemble([nn.Linear(4, 3) for _ in range(5)])
    >>> parallel = ParallelEnsemble(whole, LOCAL)
    >>> x = torch.randn(10, 4)
    >>> torch.equal(parallel.predict(x), whole.predict(x)), len(parallel.whole().learners)
    (True, 5)
    """

    _moves_in_step = True

    def __init__(self, ensemble: Ensemble, axes: Axes, *, sharded: bool = False) -> None:
        if ensemble.n_learners < axes.n_learner_ranks:
            raise ValueError(
                f"`ensemble` must have a learner for each of the {axes.n_learner_ranks} processes of its axis; "
                f"got {ensemble.n_learners}."
            )
        super().__init__(ensemble.n_learners, ensemble.voting, ensemble.weights.tolist(), ensemble.activation)
        self.weights = ensemble.weights.detach().clone()
        self._trained_vote, self.readout = ensemble._trained_vote, copy.deepcopy(ensemble.readout)
        self.axes = axes
        places = axes.split_learners(list(range(ensemble.n_learners)))
        self.start, stop = places[0], places[-1] + 1
        # Its shapes and names, in a list: not a part of this module.
        self._whole = [copy.deepcopy(ensemble).to("meta")]
        own = Ensemble([nn.Identity() for _ in places], activation=ensemble.activation)
        body = ensemble.body
        own.body = body.part(self.start, stop) if isinstance(body, Stacked) else body[self.start : stop]
        own.to(ensemble.weights.device).train(ensemble.training)
        self.part: nn.Module = sharding.shard(own, axes) if sharded else _averaged(own, axes)

    def forward(self, x: Any) -> Tensor:
        """Return the outputs of the learners of this process; of a list of views, each learner takes its own."""
        if isinstance(x, list | tuple):
            if len(x) != self.n_learners:
                raise ValueError(
                    f"`x` must be a batch, or a list of {self.n_learners} views of it; got {len(x)} views."
                )
            x = self.axes.split_learners(list(x))
        return self.trained_with(self.part(x))

    def outputs(self, x: Any) -> Tensor:
        """Return the outputs of all learners."""
        own = unwrap(self.part)(self.axes.split_learners(list(x)) if isinstance(x, list | tuple) else x)
        return self.axes.gather_learners(own)

    def whole(self) -> Ensemble:
        """Return the whole ensemble with its current values, on every process; all must call it."""
        device = self.weights.device
        found = copy.deepcopy(self._whole[0]).to_empty(device=device)
        found.load_state_dict(whole_state(self))
        return found.train(self.training)


def parallelize(ensemble: nn.Module, mesh: Any, *, shard: bool = False) -> nn.Module:
    """Spread an ensemble over a mesh: its learners over one axis, copies of them over the other.

    Parameters
    ----------
    ensemble : Ensemble, or any Module
        The same on all processes, on the device of each. Modules other than an :class:`Ensemble` have no learners to
        spread, and need a mesh with a data axis alone.
    mesh : DeviceMesh or ProcessGroup
        A mesh with the dimensions ``"learners"`` and ``"data"``, or one of them; a process group is a data axis.
    shard : bool, default=False
        Spread the weights over the data axis, in place of copies, by ``torch.distributed.fsdp.fully_shard``: for
        networks that do not fit on one device. Needs torch 2.6.

    Returns
    -------
    Module
        A :class:`ParallelEnsemble` if learners are spread, else the ensemble inside ``DistributedDataParallel``, or
        itself if it is sharded or the mesh is a single process.

    Notes
    -----
    :func:`fit` with ``mesh`` calls it, without ``shard``; give it a sharded ensemble. Weights that are sharded are
    gathered for each pass, so all processes must take part in every prediction, too. In a training loop of your own,
    give the loss the same ``mesh``. Networks may differ. Batch normalisation takes its statistics from the samples of
    one process; ``torch.nn.SyncBatchNorm`` takes those of all.

    Examples
    --------
    >>> ensemble = Ensemble([nn.Linear(4, 3) for _ in range(5)])
    >>> parallelize(ensemble, "local") is ensemble
    True
    """
    axes, sharded = as_axes(mesh), check_flag(shard, "shard")
    if axes.learners is None:
        return sharding.shard(ensemble, axes) if sharded else _averaged(ensemble, axes)
    if not isinstance(ensemble, Ensemble):
        raise TypeError(
            f"`ensemble` must be an Ensemble, for its learners to be spread; got {type(ensemble).__name__}."
        )
    return ParallelEnsemble(ensemble, axes, sharded=sharded)


def axes_of(ensemble: nn.Module) -> Axes:
    """Return the processes that a module trains with: those of a mesh, or of DDP or FSDP in it."""
    bare = unwrap(ensemble)
    if isinstance(bare, ParallelEnsemble):
        return bare.axes
    found = [module for module in ensemble.modules() if isinstance(module, DistributedDataParallel)]
    if found:
        return Axes(found[0].process_group)
    return sharding.sharded_axes(ensemble) or LOCAL


def whole_state(ensemble: nn.Module, state: _State | None = None) -> dict[str, Any]:
    """Return the state dict of the whole ensemble, given that of this process; all processes must call it.

    Parameters
    ----------
    ensemble : Module
        Any module, inside wrappers or not.
    state : mapping, optional
        A state dict of the module inside the wrappers; by default the present one.
    """
    bare = unwrap(ensemble)
    state = bare.state_dict() if state is None else state
    state = {name: sharding.as_whole(value) for name, value in state.items()}
    if not isinstance(bare, ParallelEnsemble) or not state:
        return state
    inner = _prefix(bare)
    body = {
        name.removeprefix(inner): value for name, value in state.items() if name.startswith(f"{inner}body.")
    }
    rest = {name: value for name, value in state.items() if not name.startswith("part.")}
    return rest | _joined(bare, body)


def load_whole_state(ensemble: nn.Module, state: _State) -> None:
    """Load the state dict of a whole ensemble into the part of this process."""
    bare = unwrap(ensemble)
    bare.load_state_dict(part_state(bare, state))


def part_state(bare: nn.Module, state: _State) -> dict[str, Any]:
    """Return the state dict of the part of this process, given that of the whole ensemble."""
    own = bare.state_dict()
    if not isinstance(bare, ParallelEnsemble) or not state:
        return {name: sharding.as_sharded(value, own.get(name)) for name, value in state.items()}
    inner = _prefix(bare)
    body = {name: value for name, value in state.items() if name.startswith("body.")}
    rest = {name: value for name, value in state.items() if not name.startswith("body.")}
    kept = {
        name: value for name, value in own.items() if name.startswith("part.")
    }  # the part has a vote of its own
    found = kept | rest | {f"{inner}{name}": value for name, value in _cut(bare, body).items()}
    return {name: sharding.as_sharded(value, own.get(name)) for name, value in found.items()}


def whole_optimizer_state(optimizer: Optimizer, ensemble: nn.Module, loss: nn.Module) -> dict[str, Any]:
    """Return the state of an optimizer by the names of parameters in the whole ensemble; all processes must call it."""
    held, names = optimizer.state_dict(), _names(optimizer, ensemble, loss)
    state = {
        names[i]: {key: sharding.as_whole(value) for key, value in entry.items()}
        for i, entry in held["state"].items()
    }
    bare = unwrap(ensemble)
    if isinstance(bare, ParallelEnsemble):
        flat = {f"{name}\n{key}": value for name, entry in state.items() for key, value in entry.items()}
        state = {}
        for name, value in _joined(bare, flat).items():
            parameter, _, key = name.partition("\n")
            state.setdefault(parameter, {})[key] = value
    groups = [{k: v for k, v in group.items() if k != "params"} for group in held["param_groups"]]
    return {"state": state, "groups": groups}


def load_optimizer_state(optimizer: Optimizer, ensemble: nn.Module, loss: nn.Module, saved: _State) -> None:
    """Load what :func:`whole_optimizer_state` returned into the optimizer of this process."""
    names, bare, state = _names(optimizer, ensemble, loss), unwrap(ensemble), dict(saved["state"])
    if isinstance(bare, ParallelEnsemble):
        flat = {f"{name}\n{key}": value for name, entry in state.items() for key, value in entry.items()}
        state = {}
        for name, value in _cut(bare, flat).items():
            parameter, _, key = name.partition("\n")
            state.setdefault(parameter, {})[key] = value
    own = optimizer.state_dict()["param_groups"]
    groups = [{**old, "params": new["params"]} for old, new in zip(saved["groups"], own, strict=True)]
    every = [p for group in optimizer.param_groups for p in group["params"]]
    parts = {
        i: {key: sharding.as_sharded(value, p) for key, value in state[name].items()}
        for i, (name, p) in enumerate(zip(names, every, strict=True))
        if name in state
    }
    optimizer.load_state_dict({"state": parts, "param_groups": groups})


def _averaged(module: nn.Module, axes: Axes) -> nn.Module:
    """Return a module whose gradients are averaged over the data axis."""
    return module if axes.data is None else DistributedDataParallel(module, process_group=axes.data)


def _prefix(parallel: ParallelEnsemble) -> str:
    return "part.module." if isinstance(parallel.part, DistributedDataParallel) else "part."


def _names(optimizer: Optimizer, ensemble: nn.Module, loss: nn.Module) -> list[str]:
    """Return the names of an optimizer's parameters, by their numbers in its state dict."""
    bare = unwrap(ensemble)
    inner = _prefix(bare) if isinstance(bare, ParallelEnsemble) else ""
    known = {id(p): f"loss.{name}" for name, p in loss.named_parameters()}
    known |= {id(p): bare_name(name.removeprefix(inner)) for name, p in bare.named_parameters()}
    return [known[id(p)] for group in optimizer.param_groups for p in group["params"]]


def _joined(parallel: ParallelEnsemble, body: dict[str, Any]) -> dict[str, Any]:
    """Return tensors of the learners of all processes, by their names in the whole ensemble."""
    axes = parallel.axes
    moved = {name: value.cpu() if isinstance(value, Tensor) else value for name, value in body.items()}
    parts = axes.each((parallel.start, moved), axes.learners)
    if isinstance(parallel._whole[0].body, Stacked):
        each = [part for _, part in parts]
        return {
            name: torch.cat([part[name] for part in each]) if _has_learners(value) else value
            for name, value in each[0].items()
        }
    return {_moved(name, start): value for start, part in parts for name, value in part.items()}


def _cut(parallel: ParallelEnsemble, body: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of the learners of this process, of those of all."""
    start, n = parallel.start, cast(Ensemble, unwrap(parallel.part)).n_learners
    if not isinstance(parallel._whole[0].body, Stacked):
        own = {f"body.{start + i}." for i in range(n)}
        return {
            _moved(name, -start): value
            for name, value in body.items()
            if not name.startswith("body.") or any(name.startswith(one) for one in own)
        }
    found = {}
    for name, value in body.items():
        if _has_learners(value) and name.startswith("body."):
            size = len(value) // parallel.n_learners
            value = value[start * size : (start + n) * size]
        found[name] = value
    return found


def _has_learners(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def _moved(name: str, by: int) -> str:
    """Return ``body.3.weight`` with the number of its learner changed; other names stay."""
    first, _, rest = name.partition(".")
    if first != "body":
        return name
    number, _, rest = rest.partition(".")
    return f"body.{int(number) + by}.{rest}"
