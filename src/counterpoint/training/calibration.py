"""Calibrated probabilities for learners whose loss does not determine the scale and offset of their outputs."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from counterpoint._validation import check_flag, check_whole
from counterpoint.training.batches import forward_batch, is_same, iter_on_device, rows_of
from counterpoint.training.columns import check_sample_weight, class_columns, one_hot
from counterpoint.training.ensemble import Voters, voters_in
from counterpoint.training.mesh import LOCAL, Axes
from counterpoint.training.modules import evaluating, unwrap
from counterpoint.training.readout import Readout

__all__ = ["calibrate", "calibrate_on"]


def calibrate(
    ensemble: Voters,
    batches: Iterable[Any],
    *,
    max_samples: int = 10_000,
    decode: bool | None = None,
    unpack: Callable[[Any], Any] | None = None,
) -> Voters:
    """Fit the scale and class offsets of each learner to some samples.

    Parameters
    ----------
    ensemble : Ensemble
        The ensemble, possibly inside a wrapper. It gets a ``readout``, which ``learner_proba``,
        ``predict_proba`` and ``predict`` use; ``forward`` is unchanged.
    batches : iterable of (x, y) or (x, y, sample_weight)
        The samples; training samples will do. Either all batches have weights or none has.
    max_samples : int, default=10000
        Stop after this many samples.
    decode : bool, optional
        Whether the vote decodes the mean of the learners' standardised outputs, which is what
        :class:`~counterpoint.training.CorrelationLoss` trains, instead of pooling their probabilities. By default it
        stays as it is: False unless :func:`~counterpoint.training.fit` or an earlier call set it.
    unpack : callable, optional
        As for :func:`~counterpoint.training.fit`.

    Returns
    -------
    Ensemble
        The same ensemble.

    Notes
    -----
    A correlation is blind to the scale and offset of a column, so learners trained by
    :class:`~counterpoint.training.CorrelationLoss` rank the samples well and may still vote for one class throughout.
    :func:`~counterpoint.training.fit` calibrates, and decodes, at its end if that was the loss.

    Without ``decode``, each learner is calibrated by itself, which ``learner_proba`` shows. The probabilities of their
    vote may then be less calibrated than before.

    Examples
    --------
    >>> from counterpoint.training import Ensemble
    >>> from torch import nn
    >>> ensemble = Ensemble([nn.Linear(1, 2), nn.Linear(1, 2)])
    >>> x, y = torch.linspace(-1, 1, 64)[:, None], (torch.linspace(-1, 1, 64) > 0.5).long()
    >>> bool((calibrate(ensemble, [(x, y)]).predict(x) == y).float().mean() >= 0.75)
    True
    """
    bare = voters_in(ensemble) if isinstance(ensemble, nn.Module) else None
    if bare is None:
        raise TypeError(f"`ensemble` must be an Ensemble; got {type(ensemble).__name__}.")
    max_samples = check_whole(max_samples, "max_samples", minimum=1)
    if bare.activation != "softmax":
        raise ValueError(
            "`ensemble` must return logits, to be calibrated; got one that returns probabilities or numbers."
        )
    before = bare.readout is not None and bare.readout.decodes
    decodes = before if decode is None else check_flag(decode, "decode")
    device = next(bare.parameters(), bare.weights).device
    parts = iter_on_device(batches, device, "batches", unpack=unpack)
    raw, target, weight = _outputs(unwrap(ensemble), bare, parts, LOCAL, max_samples)
    bare.readout = _fitted(bare, raw, target, weight, decodes)
    return ensemble


def calibrate_on(
    axes: Axes, module: nn.Module, ensemble: Voters, parts: Iterable[Any], max_samples: int
) -> None:
    """Do what :func:`calibrate` does, to decode, with the batches and learners of all processes of a mesh."""
    raw, target, weight = _outputs(module, ensemble, parts, axes, max_samples)
    readout = axes.once(lambda: _fitted(ensemble, raw, target, weight, True).cpu())
    ensemble.readout = readout.to(ensemble.weights.device)


def _outputs(
    module: nn.Module, ensemble: Voters, batches: Iterable[Any], axes: Axes, max_samples: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return logits, labels and weights of the first samples; the ensemble may be inside a module that prepares x."""
    logits, targets, weights, seen = [], [], [], 0
    outputs: list[Tensor] = []
    hook = ensemble.register_forward_hook(lambda _module, _inputs, found: outputs.append(found))
    with ExitStack() as ending:
        ending.callback(hook.remove)
        ending.enter_context(evaluating(module))
        for x, y, *weight in batches:
            outputs.clear()
            returned = forward_batch(module, x, "batches")
            found = next((own for own in outputs if is_same(returned, own)), outputs[-1])
            found, y, weight = rows_of(found, y, weight)
            for given in weight:
                check_sample_weight(given, len(y))
            found, y, shared = axes.gather(found, y, weight[0] if weight else None)
            if not len(y):
                continue
            columns = class_columns(found)
            logits.append(columns)
            targets.append(one_hot(y, columns).argmax(-2))
            weights += [] if shared is None else [shared]
            seen += len(y)
            if seen >= max_samples:
                break
    if not logits:
        raise ValueError("`batches` must yield at least one sample with a label; got none.")
    axes.idle = False
    return torch.cat(logits, 2).mT, torch.cat(targets), torch.cat(weights) if weights else None


def _fitted(bare: Voters, raw: Tensor, target: Tensor, weight: Tensor | None, decodes: bool) -> Readout:
    start = Readout.identity(raw.shape[0], raw.shape[-1]).to(raw.device)
    found = start.refit(raw, target, weight)
    return found.refit_pool(raw, target, weight, learner_weight=bare.weights) if decodes else found
