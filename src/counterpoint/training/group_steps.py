"""The steps of groups of ensembles that train as one program: their summed loss, and the optimizer."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from counterpoint.training.arguments import check_steps
from counterpoint.training.ensemble_loss import EnsembleLoss
from counterpoint.training.group_networks import GroupNetworks
from counterpoint.training.losses import DiversityLoss, IndependentLoss
from counterpoint.training.mesh import LOCAL

__all__ = ["GroupLoss", "Steps", "adamw", "trained_parameters", "warmup_loss"]

# A mean gradient below this is zero. It takes 170 steps from there to the smallest number of full precision.
_FORGOTTEN = 1e-30
_FORGET_EVERY = 100  # steps


class GroupLoss:
    """The sum of the groups' losses, with one call for all losses of one kind."""

    def __init__(self, losses: Sequence[EnsembleLoss], n_learners: int, device: torch.device) -> None:
        kinds: dict[object, list[int]] = {}
        for g, loss in enumerate(losses):
            kinds.setdefault(loss.kind, []).append(g)
        self.parts = [
            (_joined([losses[g] for g in groups], n_learners, device), _index(groups))
            for groups in kinds.values()
        ]

    def __call__(self, logits: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Return the summed loss of logits (G, N, B, m)."""
        total = logits.new_zeros(())
        for loss, groups in self.parts:
            own = None if weight is None else weight[groups]
            with loss.on(LOCAL):  # groups train on one process, also where there are others
                total = total + loss(logits[groups], target[groups], own).sum()
        return total


@dataclass(frozen=True)
class Steps:
    """The steps of an optimizer, each followed by one of the scheduler."""

    optimizer: Optimizer
    scheduler: LRScheduler | None = None
    decay: Callable[[], None] | None = None  # shrinks the weights before each step

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise TypeError(f"`optimizer` must return a torch Optimizer; got {self.optimizer!r}.")
        if not (self.scheduler is None or isinstance(self.scheduler, LRScheduler)):
            raise TypeError(f"`scheduler` must return a torch LRScheduler; got {self.scheduler!r}.")
        check_steps(self.scheduler)

    def take(self, loss: Tensor) -> None:
        """Take a step along the gradient of a loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.decay is not None:
            self.decay()
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()


def adamw(
    networks: GroupNetworks, learning_rate: float, decays: Sequence[float]
) -> tuple[Optimizer, Callable[[], None] | None]:
    """Return AdamW for networks with a weight decay each.

    Where stacked networks differ in their decay, the second value shrinks the weights before each step.
    """
    trained = trained_parameters(networks)
    if len(set(decays)) == 1:
        return _fast_adamw([{"params": trained, "weight_decay": decays[0]}], learning_rate), None
    if not networks.is_stacked:
        own = [
            {"params": trained_parameters(network), "weight_decay": decay}
            for network, decay in zip(networks.learners, decays, strict=True)
        ]
        return _fast_adamw(own, learning_rate), None
    optimizer = _fast_adamw([{"params": trained, "weight_decay": 0.0}], learning_rate)
    shrunk = [
        _per_learner(p, [decays[place] for place in part.places])
        for part in networks.parts
        for p in trained_parameters(part)
    ]

    @torch.no_grad()
    def shrink() -> None:
        rate = optimizer.param_groups[0]["lr"]  # which a scheduler may change
        for parameter, own in zip(trained, shrunk, strict=True):
            parameter.addcmul_(parameter, own, value=-rate)

    return optimizer, shrink


def _fast_adamw(groups: list[dict[str, Any]], learning_rate: float) -> torch.optim.AdamW:
    """Return AdamW in one pass over the weights, which are many and take longer to read than to change.

    The mean gradient of a unit that has died shrinks at every step, after some 800 to numbers so small that a CPU
    computes with them many times slower. It is set to zero before, where no weight can change by it any more.
    """
    trained = [p for group in groups for p in group["params"]]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in trained)
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, fused=fused)
    steps = count(1)

    @torch.no_grad()
    def forget(optimizer: Optimizer, *_: Any) -> None:
        if next(steps) % _FORGET_EVERY == 0:
            for state in optimizer.state.values():
                state["exp_avg"].copy_(F.hardshrink(state["exp_avg"], _FORGOTTEN))

    if any(p.device.type == "cpu" for p in trained):
        optimizer.register_step_post_hook(forget)
    return optimizer


def _per_learner(parameter: Tensor, values: Sequence[float]) -> Tensor:
    """Return the value of each stacked learner, to be multiplied with a parameter."""
    own = torch.tensor(values, dtype=torch.float32, device=parameter.device)
    # The channels of the learners may be side by side in the first axis.
    own = own.repeat_interleave(len(parameter) // len(own))
    return own.reshape(-1, *[1] * (parameter.dim() - 1))


def warmup_loss(loss: Any) -> EnsembleLoss:
    """Return independent training with the targets of a loss, for the epochs of a warm-up.

    Examples
    --------
    >>> from counterpoint.training import DiversityLoss
    >>> warmup_loss(DiversityLoss(label_smoothing=0.1)).label_smoothing
    0.1
    """
    if isinstance(loss, DiversityLoss):
        kept = {name: getattr(loss, name) for name in ("weight", "label_smoothing", "ignore_index")}
        return IndependentLoss(**kept)
    regression = isinstance(loss, EnsembleLoss) and loss.activation == "regression"
    return loss.with_diversity(0.0) if regression else IndependentLoss()


def trained_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen."""
    return [p for p in module.parameters() if p.requires_grad]


def _joined(losses: Sequence[EnsembleLoss], n_learners: int, device: torch.device) -> EnsembleLoss:
    """Return losses of one kind as one, with a diversity for each group where they differ in it."""
    dials = [loss.effective_diversity(n_learners) for loss in losses]
    if len(set(dials)) == 1:
        return copy.copy(losses[0])  # other programs may run it at the same time
    return losses[0].with_diversity(torch.tensor(dials, dtype=torch.float32, device=device))


def _index(groups: list[int]) -> slice | list[int]:
    """Return consecutive places as a slice: a view costs nothing."""
    consecutive = groups == list(range(groups[0], groups[0] + len(groups)))
    return slice(groups[0], groups[-1] + 1) if consecutive else groups
