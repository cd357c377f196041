"""Probabilities for learners whose loss has left scale and offset of their outputs open."""

from collections.abc import Iterable
from typing import Any

import torch

from counterpoint._validation import check_flag, check_whole
from counterpoint.training.columns import check_sample_weight, class_columns, one_hot
from counterpoint.training.ensemble import Voters, evaluating
from counterpoint.training.preparation import outputs_of, placed
from counterpoint.training.readout import Readout
from counterpoint.training.unwrapping import unwrapped

__all__ = ["calibrate"]


def calibrate(
    ensemble: Voters, batches: Iterable[Any], *, max_samples: int = 10_000, decode: bool | None = None
) -> Voters:
    """Give each learner the scale and class offsets that fit its probabilities to some samples.

    Parameters
    ----------
    ensemble : Ensemble
        It, or the one that a wrapper of torch holds, gets a ``readout``, which ``learner_proba``, ``predict_proba`` and
        ``predict`` use; what it puts out by ``forward`` stays as it is.
    batches : iterable of (x, y) or (x, y, sample_weight)
        The samples, with weights throughout or nowhere; those trained on will do.
    max_samples : int, default=10000
        How many samples are enough.
    decode : bool, optional
        Whether the vote decodes the mean of the learners' standardised outputs, which is what
        :class:`~counterpoint.training.CorrelationLoss` trains, in the place of pooling their own probabilities. By
        default as before: not in the first call, unless :func:`~counterpoint.training.fit` did so.

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
    bare = unwrapped(ensemble)
    if not isinstance(bare, Voters):
        raise TypeError(f"`ensemble` must be an Ensemble; got {type(ensemble).__name__}.")
    max_samples = check_whole(max_samples, "max_samples", minimum=1)
    if bare.activation != "softmax":
        raise ValueError(
            "`ensemble` must put out logits, to be calibrated; got one that puts out probabilities."
        )
    device = next(bare.parameters(), bare.weights).device
    logits, targets, weights, seen = [], [], [], 0
    with evaluating(bare):
        for x, y, *weight in placed(batches, device, "batches"):
            columns = class_columns(outputs_of(bare, x, "batches"))
            logits.append(columns)
            targets.append(one_hot(y, columns).argmax(-2))
            for given in weight:
                check_sample_weight(given, len(y))
            weights += weight
            seen += len(y)
            if seen >= max_samples:
                break
    if not logits:
        raise ValueError("`batches` must give at least one batch; got none.")
    raw, target = torch.cat(logits, 2).mT, torch.cat(targets)
    start = Readout.identity(raw.shape[0], raw.shape[-1]).to(device)
    together = torch.cat(weights) if weights else None
    before = bare.readout is not None and bare.readout.decodes
    bare.readout = start.refit(raw, target, together)
    if before if decode is None else check_flag(decode, "decode"):
        bare.readout = bare.readout.refit_pool(raw, target, together, learner_weight=bare.weights)
    return ensemble
