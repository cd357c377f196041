"""An ensemble of any networks as one module."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from counterpoint._validation import check_choice, check_weights
from counterpoint.training.correlation import two_columns
from counterpoint.training.readout import Readout
from counterpoint.training.stacked import Stacked, can_stack

__all__ = ["Ensemble"]


class Ensemble(nn.Module):
    """Networks that answer, vote and train together.

    Parameters
    ----------
    learners : sequence of Module
        Any mix of networks, new or pretrained, with the same outputs. Equal sequences of common layers are stacked and
        run as one batched program; their values are copied, and ``learners`` gives them back as ordinary modules.
    voting : {"soft", "hard"}, default="soft"
        Average the probabilities, or count the votes.
    weights : sequence of float, optional
        Weights of the learners in the vote.
    outputs : {"softmax", "identity"}, default="softmax"
        How what the learners put out becomes probabilities; ``"identity"`` if it is probabilities already, those of
        class 1 if there is one column.

    Attributes
    ----------
    readout : Readout or None
        The scale and class offsets with which probabilities are read from what the learners put out; given by
        :func:`~counterpoint.training.calibrate`.

    Notes
    -----
    Parameters of stacked learners have other shapes than those of one: the bias of a linear layer is
    ``(n_learners, n_outputs, 1)``, its weight ``(n_learners, n_outputs, n_inputs)``. An optimizer that goes entry by
    entry, as SGD and Adam, does the same to them; one that looks at shapes, as Adafactor and Muon, does not, and groups
    of parameters, such as those without weight decay, should be told apart by name and not by ``dim()``. A subclass of
    ``nn.Sequential``, be it empty, is not stacked. Nor are learners that differ in a setting, or have hooks, a
    ``forward`` of their own or further tensors. Other attributes that were put on stacked learners are not kept.

    Learners that are not stacked are handed the same tensor. One that begins with an operation in place, as
    ``nn.ReLU(inplace=True)``, would change it for those after it; leave out ``inplace`` there.

    Examples
    --------
    >>> ensemble = Ensemble([nn.Linear(4, 3) for _ in range(5)])
    >>> x = torch.randn(10, 4)
    >>> ensemble(x).shape  # (n_learners, batch, n_classes)
    torch.Size([5, 10, 3])
    >>> ensemble.predict_proba(x).shape, ensemble.predict(x).shape
    (torch.Size([10, 3]), torch.Size([10]))
    """

    weights: Tensor

    def __init__(
        self,
        learners: Sequence[nn.Module],
        *,
        voting: str = "soft",
        weights: Sequence[float] | None = None,
        outputs: str = "softmax",
    ) -> None:
        super().__init__()
        # A Sequential is one network, though it can be gone through like a list.
        several = isinstance(learners, Iterable) and not isinstance(learners, nn.Sequential)
        given, learners = learners, list(learners) if several else []
        if not learners or not all(isinstance(learner, nn.Module) for learner in learners):
            raise TypeError(f"`learners` must be a list of at least one torch Module; got {given!r}.")
        self.voting = check_choice(voting, "voting", ("soft", "hard"))
        self.outputs = check_choice(outputs, "outputs", ("softmax", "identity"))
        self.n_learners = len(learners)
        share = check_weights(weights, "weights", len(learners))
        self.register_buffer("weights", torch.as_tensor(share, dtype=torch.float32))
        self.readout: Readout | None = None
        self.members: nn.ModuleList | Stacked = (
            Stacked(learners) if can_stack(learners) else nn.ModuleList(learners)
        )
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]

    @property
    def is_stacked(self) -> bool:
        """Whether the learners run as one batched program."""
        return isinstance(self.members, Stacked)

    @property
    def learners(self) -> list[nn.Module]:
        """The learners as ordinary modules; copies of the present values where they are stacked."""
        return self.members.unstack() if isinstance(self.members, Stacked) else list(self.members)

    def forward(self, x: Tensor | Sequence[Tensor]) -> Tensor:
        """Return what each learner puts out, (n_learners, batch, n_classes).

        Parameters
        ----------
        x : Tensor, or list of Tensor
            A batch for all; a list holds one view of it for each learner.
        """
        if isinstance(x, list | tuple) and len(x) != self.n_learners:
            raise ValueError(
                f"`x` must be a batch, or a list of {self.n_learners} views of it; got {len(x)} views."
            )
        if isinstance(self.members, Stacked):
            if not isinstance(x, Tensor | list | tuple):
                raise TypeError(f"`x` must be a tensor, or a list of them; got {type(x).__name__}.")
            return self.members(x)  # type: ignore[no-any-return]
        views = x if isinstance(x, list | tuple) else [x] * self.n_learners
        outputs = [learner(view) for learner, view in zip(self.members, views, strict=True)]
        if len({tuple(output.shape) for output in outputs}) > 1:
            shapes = ", ".join(str(tuple(output.shape)) for output in outputs)
            raise ValueError(f"`learners` must put out as many classes each; got the shapes {shapes}.")
        return torch.stack(outputs)

    def member_proba(self, x: Tensor | list[Tensor]) -> Tensor:
        """Return the probabilities of each learner, (n_learners, batch, n_classes), in evaluation mode."""
        with evaluating(self):
            logits = two_columns(self(x), self.outputs).float()
            if self.outputs == "identity":
                return logits
            return (logits if self.readout is None else self.readout(logits)).softmax(-1)

    def predict_proba(self, x: Tensor | list[Tensor]) -> Tensor:
        """Return the averaged probabilities, or the shares of the votes, (batch, n_classes)."""
        return self.combine(self.member_proba(x))

    def predict(self, x: Tensor | list[Tensor]) -> Tensor:
        """Return the class that wins the vote, (batch,)."""
        return self.predict_proba(x).argmax(-1)

    def combine(self, proba: Tensor) -> Tensor:
        """Return the vote of probabilities (n_learners, batch, n_classes)."""
        if self.voting == "hard":
            proba = nn.functional.one_hot(proba.argmax(-1), proba.shape[-1]).to(proba.dtype)
        return torch.einsum("n,nbk->bk", self.weights.to(proba), proba)

    def extra_repr(self) -> str:
        """Return the settings."""
        settings = f"n_learners={self.n_learners}, voting={self.voting!r}, outputs={self.outputs!r}"
        return f"{settings}, stacked={self.is_stacked}"


def _make_room(module: nn.Module, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Give an ensemble a read-out to be filled if the learners it is about to take up have one, else none."""
    ensemble = cast(Ensemble, module)
    scale, offset = (state_dict.get(f"{prefix}readout.{name}") for name in ("scale", "offset"))
    if scale is not None and offset is not None:
        if len(scale) == ensemble.n_learners:  # else torch is about to refuse the state
            room = Readout(torch.empty_like(scale), torch.empty_like(offset))
            ensemble.readout = room.to(ensemble.weights.device)
    elif any(name.startswith(f"{prefix}members.") for name in state_dict):
        ensemble.readout = None


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation, without gradients, and back to the modes that were set."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode
