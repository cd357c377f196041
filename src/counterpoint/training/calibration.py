"""Calibrated probabilities for learners whose loss does not determine the scale and offset of their outputs."""

from collections.abc import Iterable
from typing import Any

import torch

from counterpoint._validation import check_flag, check_whole
from counterpoint.training.batches import forward_batch, iter_on_device
from counterpoint.training.columns import check_sample_weight, class_columns, one_hot
from counterpoint.training.ensemble import Voters
from counterpoint.training.modules import evaluating, unwrap
from counterpoint.training.readout import Readout

__all__ = ["calibrate"]


def calibrate(
    ensemble: Voters, batches: Iterable[Any], *, max_samples: int = 10_000, decode: bool | None = None
) -> Voters:
    """Fit the scale and class offsets of each learner to some samples.

    Parameters
    ----------
    ensemble : Ensemble
        The ensemble, possibly inside a wrapper of torch. It gets a ``readout``, which ``learner_proba``,
        ``predict_proba`` and ``predict`` use; ``forward`` is unchanged.
    batches : iterable of (x, y) or (x, y, sample_weight)
        The samples; training samples will do. Either all batches have weights or none has.
    max_samples : int, default=10000
        Stop after this many samples.
    decode : bool, optional
        Whether the vote decodes the mean of the learners' standardised outputs, which is what
        :class:`~counterpoint.training.CorrelationLoss` trains, instead of pooling their probabilities. By default it
        stays as it is: False unless :func:`~counterpoint.training.fit` or an earlier call set it.

    Returns
    -------
    Ensemble
        The same ensemble.

    Notes
    -----
    A correlation is blind to the scale and offset of a column, so learners trained by
    :class:`~counterpoint.training.CorrelationLoss` rank the samples well and may still vote for one class throughout.
    :func:`~counterpoint.training.fit` calibrates, and decodes, at its end if that was the loss.

    Examples
    --------
    >>> from counterpoint.training import Ensemble
    >>> from torch import nn
    >>> ensemble = Ensemble([nn.Linear(1, 2), nn.Linear(1, 2)])
    >>> x, y = torch.linspace(-1, 1, 64)[:, None], (torch.linspace(-1, 1, 64) > 0.5).long()
    >>> bool((calibrate(ensemble, [(x, y)]).predict(x) == y).float().mean() >= 0.75)
    True
    """
    bare = unwrap(ensemble)
    if not isinstance(bare, Voters):
        raise TypeError(f"`ensemble` must be an Ensemble; got {type(ensemble).__name__}.")
    max_samples = check_whole(max_samples, "max_samples", minimum=1)
    if bare.activation != "softmax":
        raise ValueError(
            "`ensemble` must return logits, to be calibrated; got one that returns probabilities or numbers."
        )
    device = next(bare.parameters(), bare.weights).device
    logits, targets, weights, seen = [], [], [], 0
    with evaluating(bare):
        for x, y, *weight in iter_on_device(batches, device, "batches"):
            columns = class_columns(forward_batch(bare, x, "batches"))
            logits.append(columns)
            targets.append(one_hot(y, columns).argmax(-2))
            for given in weight:
                check_sample_weight(given, len(y))
            weights += weight
            seen += len(y)
            if seen >= max_samples:
                break
    if not logits:
        raise ValueError("`batches` must yield at least one batch; got none.")
    raw, target = torch.cat(logits, 2).mT, torch.cat(targets)
    start = Readout.identity(raw.shape[0], raw.shape[-1]).to(device)
    together = torch.cat(weights) if weights else None
    before = bare.readout is not None and bare.readout.decodes
    bare.readout = start.refit(raw, target, together)
    if before if decode is None else check_flag(decode, "decode"):
        bare.readout = bare.readout.refit_pool(raw, target, together, learner_weight=bare.weights)
    return ensemble
