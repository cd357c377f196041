"""Modules with several learners: an ensemble of any networks, and one network with several heads."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from counterpoint._validation import check_choice, check_weights, check_whole
from counterpoint.exceptions import LearnerWarning
from counterpoint.training.columns import two_columns
from counterpoint.training.ensemble_loss import EnsembleLoss
from counterpoint.training.modules import (
    check_shaped,
    counting_rows,
    evaluating,
    name_bare,
    name_wrapped,
    rows_at_once,
    uncompiled,
    unwrap,
)
from counterpoint.training.readout import Readout
from counterpoint.training.stacked import Stacked, can_stack, change_layout
from counterpoint.training.voting import VOTES, Vote

__all__ = ["Ensemble", "MemberAxis", "Voters", "voters_in"]


class Voters(nn.Module):
    """Base of modules with several learners that vote; subclasses define ``forward``.

    Parameters
    ----------
    n_learners : int
        Number of learners.
    voting, weights, activation
        As for :class:`Ensemble`.

    Examples
    --------
    >>> isinstance(Ensemble([nn.Linear(4, 3), nn.Linear(4, 3)]), Voters)
    True
    """

    weights: Tensor
    _moves_in_step = False  # whether other processes predict with the same pieces

    def __init__(
        self, n_learners: int, voting: str, weights: Sequence[float] | None, activation: str
    ) -> None:
        super().__init__()
        self.activation = check_choice(activation, "activation", ("softmax", "identity", "regression"))
        self.voting = voting
        self.n_learners = n_learners
        share = check_weights(weights, "weights", n_learners)
        self.register_buffer("weights", torch.as_tensor(share, dtype=torch.float32))
        self.readout: Readout | None = None
        self._trained_vote = "soft"
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]

    @property
    def voting(self) -> str:
        """The vote that was requested."""
        return self._voting

    @voting.setter
    def voting(self, voting: str) -> None:
        self._voting: str = check_choice(voting, "voting", self._choices)

    @property
    def _choices(self) -> tuple[str, ...]:
        return ("auto",) if self.activation == "regression" else ("auto", *VOTES)

    @property
    def vote(self) -> str:
        """The vote in use: ``voting``, or if that is "auto" the vote that the last loss trained; "mean" of numbers."""
        return self.rule.kind

    @property
    def rule(self) -> Vote:
        """The current rule that turns outputs of the learners into probabilities of the vote."""
        return self.rule_for(self.voting)

    def rule_for(self, voting: str) -> Vote:
        """Return the rule for another value of ``voting``."""
        kind = check_choice(voting, "voting", self._choices)
        if self.activation == "regression":
            return Vote("mean", self.activation, self.weights)
        if kind == "auto":
            decodes = (
                self.readout is not None and self.readout.decodes
            )  # whose shares are pooled geometrically
            kind = "geometric" if decodes else self._trained_vote
        return Vote(kind, self.activation, self.weights, self.readout)

    def trained_by(self, loss: EnsembleLoss) -> None:
        """Adopt the vote that a loss trains, as :func:`fit` does."""
        if self.activation != "regression":  # which has one vote
            self._trained_vote = check_choice(loss.voting, "voting", VOTES)

    def trained_with(self, outputs: Tensor) -> Tensor:
        """Return the outputs; if gradients flow back through them in training mode, the read-out is dropped.

        It belongs to the weights that it was fitted with.
        """
        if self.readout is None or not self.training or torch.compiler.is_compiling():
            return outputs
        if outputs.requires_grad:
            outputs.register_hook(self._drop_readout)  # type: ignore[no-untyped-call]
        return outputs

    def _drop_readout(self, _: Tensor) -> None:
        if self.readout is not None:
            self.readout = None
            warnings.warn(
                "The ensemble trains again, so its read-out was dropped; `calibrate` fits another at the end.",
                LearnerWarning,
                stacklevel=2,
            )

    def outputs(self, x: Any) -> Tensor:
        """Return the outputs of all learners, (n_learners, batch, n_classes); those of tokens have one axis more."""
        return cast(Tensor, self(x))

    def _evaluated(self, x: Any, function: Callable[[Tensor], Tensor], dim: int) -> Tensor:
        """Return a function of the outputs in evaluation mode, of some samples at a time: memory is bounded.

        The function gets one row for each sample or token; ``dim`` is the axis of the rows in what it returns.
        """
        views = list(x) if isinstance(x, list | tuple) else [x]

        def value(piece: Any) -> Tensor:
            outputs = self.outputs(piece)
            if outputs.dim() < 3:
                shape = tuple(outputs.shape[1:])
                raise ValueError(
                    f"`learners` must return one row for each sample, (batch, n_classes); got {shape}."
                )
            found = function(outputs.flatten(1, -2))
            return found.reshape(*found.shape[:dim], *outputs.shape[1:-1], *found.shape[dim + 1 :])

        with evaluating(self):
            if not all(isinstance(view, Tensor) and view.dim() for view in views):
                return value(x)
            rows = rows_at_once(self, views[0].shape[1:], self.n_learners)
            if all(len(view) <= rows for view in views):
                return value(x)
            with counting_rows(self, rows) as count:
                found = [value(x[:rows] if isinstance(x, Tensor) else [view[:rows] for view in views])]
            rest = [view[rows:].split(rows if self._moves_in_step else count()) for view in views]
            pieces = (part[0] if isinstance(x, Tensor) else list(part) for part in zip(*rest, strict=True))
            return torch.cat([*found, *map(value, pieces)], dim)

    def learner_proba(self, x: Tensor | list[Tensor]) -> Tensor:
        """Return the probabilities of each learner, (n_learners, batch, n_classes), in evaluation mode."""
        self._check_probabilities()

        def proba(outputs: Tensor) -> Tensor:
            logits = two_columns(outputs, self.activation).float()
            if self.activation == "identity":
                return logits
            return (logits if self.readout is None else self.readout(logits)).softmax(-1)

        return self._evaluated(x, proba, 1)

    def vote_learners(self, x: Tensor | list[Tensor]) -> tuple[Tensor, str]:
        """Return the probabilities whose vote is the prediction, (n_learners, batch, n_classes), and that vote.

        They are those of :meth:`learner_proba`, unless a read-out decodes the mean of the learners' standardised
        outputs: then each learner has its share of that mean, and the vote is geometric.
        """
        self._check_probabilities()
        rule = self.rule
        return self._evaluated(x, lambda outputs: rule.learners(outputs).exp(), 1), rule.kind

    def predict_proba(self, x: Tensor | list[Tensor]) -> Tensor:
        """Return the probabilities of the vote, (batch, n_classes), in evaluation mode."""
        self._check_probabilities()
        return self._evaluated(x, self.rule.__call__, 0)

    def predict(self, x: Tensor | list[Tensor]) -> Tensor:
        """Return the class that wins the vote, (batch,); for regression the mean of the learners (batch, n_outputs)."""
        if self.activation == "regression":
            return self._evaluated(x, self.rule.__call__, 0)
        return self.predict_proba(x).argmax(-1)

    def get_extra_state(self) -> Tensor:
        """Return the vote that was trained, as an index."""
        return torch.tensor(VOTES.index(self._trained_vote))

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the vote that was trained."""
        self._trained_vote = VOTES[int(state)]

    def _check_probabilities(self) -> None:
        if self.activation == "regression":
            raise ValueError(
                "`activation` must be 'softmax' or 'identity' for probabilities; got 'regression', whose outputs are "
                "numbers: use `predict`."
            )

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"n_learners={self.n_learners}, voting={self.voting!r}, activation={self.activation!r}"


class Ensemble(Voters):
    """Networks that predict, vote and train together.

    Parameters
    ----------
    learners : sequence of Module
        Any mix of networks, new or pretrained, with outputs of the same shape. Equal sequences of common layers are
        stacked and run as one batched program; their values are copied, and ``learners`` returns ordinary modules.
    voting : {"auto", "soft", "geometric", "hard"}, default="auto"
        Average the probabilities, average the logits (the geometric mean of the probabilities), or count the votes.
        ``"auto"`` is the vote that the loss of the last :func:`fit` trained, and soft before that.
    weights : sequence of float, optional
        Weights of the learners in the vote.
    activation : {"softmax", "identity", "regression"}, default="softmax"
        How outputs of the learners become probabilities; ``"identity"`` if they are probabilities already (of class 1
        if there is a single column). ``"regression"`` if they are numbers: ``predict`` returns their mean.

    Attributes
    ----------
    vote : {"soft", "geometric", "hard"}
        The vote in use.
    readout : Readout or None
        The scale and class offsets that calibrate the outputs of the learners; set by
        :func:`~counterpoint.training.calibrate`.

    Notes
    -----
    Parameters of stacked learners have other shapes than those of one: the bias of a linear layer is
    ``(n_learners, n_outputs, 1)``, its weight ``(n_learners, n_outputs, n_inputs)``. Elementwise optimizers (SGD,
    Adam) treat them the same; optimizers that depend on shapes, such as Adafactor and Muon, do not. Select groups
    of parameters, such as those without weight decay, by name and not by ``dim()``. Subclasses of ``nn.Sequential`` are
    not stacked, nor are learners that differ in a setting, or that have hooks, a ``forward`` of their own or additional
    tensors. Other attributes of stacked learners are not kept. Learners in ``torch.compile`` are stacked as plain ones
    are, and run uncompiled then; compile the ensemble instead.

    Learners that are not stacked share the input tensor. If one begins with an in-place operation, such as
    ``nn.ReLU(inplace=True)``, it changes the input of the learners after it; use ``inplace=False`` there.

    Examples
    --------
    >>> ensemble = Ensemble([nn.Linear(4, 3) for _ in range(5)])
    >>> x = torch.randn(10, 4)
    >>> ensemble(x).shape  # (n_learners, batch, n_classes)
    torch.Size([5, 10, 3])
    >>> ensemble.predict_proba(x).shape, ensemble.predict(x).shape
    (torch.Size([10, 3]), torch.Size([10]))
    """

    def __init__(
        self,
        learners: Sequence[nn.Module],
        *,
        voting: str = "auto",
        weights: Sequence[float] | None = None,
        activation: str = "softmax",
    ) -> None:
        # A Sequential is one network, though it is iterable.
        several = isinstance(learners, Iterable) and not isinstance(learners, nn.Sequential)
        given, learners = learners, list(learners) if several else []
        if not learners or not all(isinstance(learner, nn.Module) for learner in learners):
            raise TypeError(f"`learners` must be a list of at least one torch Module; got {given!r}.")
        for learner in learners:
            check_shaped(learner, "learners")
        super().__init__(len(learners), voting, weights, activation)
        bare = [uncompiled(learner) for learner in learners]
        self.body: nn.ModuleList | Stacked = Stacked(bare) if can_stack(bare) else nn.ModuleList(learners)
        self.register_load_state_dict_pre_hook(_change_layout)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(name_wrapped)  # type: ignore[no-untyped-call]
        self.register_state_dict_post_hook(name_bare)  # type: ignore[no-untyped-call]

    @property
    def is_stacked(self) -> bool:
        """Whether the learners run as one batched program."""
        return isinstance(self.body, Stacked)

    @property
    def learners(self) -> list[nn.Module]:
        """The learners as ordinary modules; copies of the present values where they are stacked."""
        return self.body.unstack() if isinstance(self.body, Stacked) else list(self.body)

    def forward(self, x: Tensor | Sequence[Tensor]) -> Tensor:
        """Return the outputs of the learners, (n_learners, batch, n_classes).

        Parameters
        ----------
        x : Tensor, list of Tensor, or mapping
            One batch for all learners, or a list with one view of the batch for each. The inputs of a mapping are given
            to each learner by name.
        """
        if isinstance(x, list | tuple) and len(x) != self.n_learners:
            raise ValueError(
                f"`x` must be a batch, or a list of {self.n_learners} views of it; got {len(x)} views."
            )
        if isinstance(self.body, Stacked):
            if not isinstance(x, Tensor | list | tuple):
                raise TypeError(f"`x` must be a tensor, or a list of them; got {type(x).__name__}.")
            return self.trained_with(self.body(x))
        views = x if isinstance(x, list | tuple) else [x] * self.n_learners
        outputs = [
            learner(**view) if isinstance(view, Mapping) else learner(view)
            for learner, view in zip(self.body, views, strict=True)
        ]
        if strangers := [output for output in outputs if not isinstance(output, Tensor)]:
            raise TypeError(f"`learners` must return a tensor each; got {type(strangers[0]).__name__}.")
        if any(output.shape != outputs[0].shape for output in outputs):  # in a trace, shapes hold tensors
            shapes = ", ".join(str(tuple(output.shape)) for output in outputs)
            raise ValueError(f"`learners` must have outputs of the same shape; got {shapes}.")
        return self.trained_with(torch.stack(outputs))

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{super().extra_repr()}, stacked={self.is_stacked}"


class MemberAxis(Voters):
    """One module with the outputs of several learners on one axis: heads on a trunk, BatchEnsemble, TabM.

    It trains and votes as an :class:`Ensemble` does.

    Parameters
    ----------
    module : Module
        Its output has an axis for the learners, such as ``(batch, n_learners, n_classes)``.
    n_learners : int
        Number of learners.
    dim : {1, 0, 2}, default=1
        The axis of the learners in the output; the other two are the batch and the classes, in this order.
    voting, weights, activation
        As for :class:`Ensemble`.

    Examples
    --------
    >>> heads = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5 * 3), nn.Unflatten(1, (5, 3)))
    >>> ensemble = MemberAxis(heads, n_learners=5)
    >>> x = torch.randn(10, 4)
    >>> ensemble(x).shape  # (n_learners, batch, n_classes)
    torch.Size([5, 10, 3])
    >>> ensemble.predict(x).shape
    torch.Size([10])
    """

    def __init__(
        self,
        module: nn.Module,
        n_learners: int,
        *,
        dim: int = 1,
        voting: str = "auto",
        weights: Sequence[float] | None = None,
        activation: str = "softmax",
    ) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"`module` must be a torch Module; got {module!r}.")
        n_learners = check_whole(n_learners, "n_learners", minimum=1)
        super().__init__(n_learners, voting, weights, activation)
        self.dim = check_whole(dim, "dim", minimum=0, maximum=2)
        self.net = module

    def forward(self, x: Any) -> Tensor:
        """Return the outputs of the learners, (n_learners, batch, n_classes)."""
        found = self.net(**x) if isinstance(x, Mapping) else self.net(x)
        if not isinstance(found, Tensor) or found.dim() != 3 or found.shape[self.dim] != self.n_learners:
            axes = ["batch", "n_classes"]
            axes.insert(self.dim, "n_learners")
            shape = f"({', '.join(axes)})"
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise ValueError(f"`module` must return {shape} with {self.n_learners} learners; got {got}.")
        return self.trained_with(found.movedim(self.dim, 0))


def voters_in(module: nn.Module) -> Voters | None:
    """Return the ensemble in a module: itself, in a wrapper of torch, or the only one in a wrapper of any kind."""
    bare = unwrap(module)
    if isinstance(bare, Voters):
        return bare
    found = [part for part in bare.modules() if isinstance(part, Voters)]
    return found[0] if len(found) == 1 else None


def _change_layout(module: nn.Module, state_dict: Any, prefix: str, *_: Any) -> None:
    """Turn the state of learners that were not stacked into that of stacked ones, and the reverse.

    Whether learners are stacked depends on their layers and their number, and not on what they have learnt.
    """
    ensemble, start = cast(Ensemble, module), f"{prefix}body."
    held = {name.removeprefix(start): value for name, value in state_dict.items() if name.startswith(start)}
    was_stacked = any(name.startswith("layers.") for name in held)
    if not held or was_stacked == ensemble.is_stacked:
        return
    try:
        found = change_layout(ensemble.body, held)
    except (RuntimeError, ValueError):  # of other learners: torch names what is missing
        return
    for name in held:
        del state_dict[f"{start}{name}"]
    state_dict.update({f"{start}{name}": value for name, value in found.items()})


def _make_room(module: nn.Module, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Give an ensemble a read-out to be filled if the state that is being loaded has one, else none."""
    ensemble = cast(Voters, module)
    start = f"{prefix}readout."
    held = {name.removeprefix(start): value for name, value in state_dict.items() if name.startswith(start)}
    if held:
        if len(held["scale"]) == ensemble.n_learners:  # else torch is about to refuse the state
            room = Readout(**{name: torch.empty_like(value) for name, value in held.items()})
            ensemble.readout = room.to(ensemble.weights.device)
    elif any(name.startswith((f"{prefix}body.", f"{prefix}net.")) for name in state_dict):
        ensemble.readout = None
