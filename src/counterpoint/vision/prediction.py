"""Predictions of an ensemble for batches of images."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn

from counterpoint._validation import check_flag
from counterpoint.training import Voters, autocast, evaluating
from counterpoint.training.batches import forward_batch, is_iterable, voters_of
from counterpoint.training.columns import two_columns

__all__ = ["predict_logits", "predict_proba"]

Images = Tensor | list[Tensor]


def predict_logits(
    ensemble: nn.Module, batches: Iterable[Any], *, flip: bool = False, precision: str = "auto"
) -> Tensor:
    """Return the logits of every learner for every image, in evaluation mode.

    Parameters
    ----------
    ensemble : Module
        An :class:`~counterpoint.training.Ensemble` of learners that return logits, or any module that returns
        ``(n_learners, batch, n_classes)``. Its mode is unchanged.
    batches : iterable of x, (x, y) or (x, y, sample_weight)
        The images, or in ``(x, y)`` a list with one view of them for each learner. Labels and weights are ignored.
    flip : bool, default=False
        Whether to average the logits of each image and of its mirror image.
    precision : {"auto", "float32", "bf16"}, default="auto"
        ``"bf16"`` runs the networks under autocast to bfloat16; ``"auto"`` does so on CUDA.

    Returns
    -------
    Tensor, shape (n_learners, n_samples, n_classes)
        In float32, on the device of the ensemble; a single logit becomes two columns. The read-out of the ensemble is
        applied if it has one, so that ``softmax(-1)`` equals ``Ensemble.learner_proba``.

    Examples
    --------
    >>> from counterpoint.training import Ensemble
    >>> from counterpoint.vision import backbone
    >>> ensemble = Ensemble([backbone("convnet", 10, width=4) for _ in range(3)])
    >>> batches = [(torch.rand(4, 3, 32, 32), torch.zeros(4)) for _ in range(2)]
    >>> predict_logits(ensemble, batches, flip=True).shape
    torch.Size([3, 8, 10])
    """
    logits, voters = _raw_logits(ensemble, batches, flip, precision)
    if voters is None or voters.readout is None:
        return logits
    with torch.no_grad():
        return cast(Tensor, voters.readout(logits))


def predict_proba(
    ensemble: Voters, batches: Iterable[Any], *, flip: bool = False, precision: str = "auto"
) -> Tensor:
    """Return the probabilities of the ensemble's vote for every image, in evaluation mode.

    Parameters
    ----------
    ensemble : Ensemble
        It votes as its loss trained it, or as its ``voting`` says. Its mode is unchanged.
    batches, flip, precision
        As for :func:`predict_logits`.

    Returns
    -------
    Tensor, shape (n_samples, n_classes)
        In float32, on the device of the ensemble.

    Examples
    --------
    >>> from counterpoint.training import Ensemble
    >>> from counterpoint.vision import backbone
    >>> ensemble = Ensemble([backbone("convnet", 10, width=4) for _ in range(3)])
    >>> predict_proba(ensemble, [torch.rand(4, 3, 32, 32)]).shape
    torch.Size([4, 10])
    """
    logits, voters = _raw_logits(ensemble, batches, flip, precision, votes=True)
    assert voters is not None
    with torch.no_grad():
        return voters.rule(logits)


def _raw_logits(
    ensemble: nn.Module, batches: Iterable[Any], flip: bool, precision: str, *, votes: bool = False
) -> tuple[Tensor, Voters | None]:
    """Return the outputs before any read-out, (n_learners, n_samples, n_classes), and the ensemble they are of.

    With ``votes``, they must be of an ensemble.
    """
    kind = "an Ensemble" if votes else "a torch Module"
    if not isinstance(ensemble, nn.Module):
        raise TypeError(f"`ensemble` must be {kind}; got {type(ensemble).__name__}.")
    check_flag(flip, "flip")
    if isinstance(batches, Tensor):
        raise TypeError("`batches` must be an iterable of batches; got one tensor.")
    if not is_iterable(batches):
        raise TypeError(f"`batches` must be an iterable of batches; got {batches!r}.")
    held = next(chain(ensemble.parameters(), ensemble.buffers()), None)
    device = torch.device("cpu") if held is None else held.device
    found: list[Tensor] = []
    voters = None
    with evaluating(ensemble), autocast(precision, device):
        for batch in batches:
            x = _images(batch, device)
            if not found:
                voters = voters_of(ensemble, x)
                if votes and voters is None:
                    raise TypeError(f"`ensemble` must be {kind}; got {type(ensemble).__name__}.")
                _check_activation(voters)
            logits = _outputs(ensemble, x)
            found.append((logits + _outputs(ensemble, _mirrored(x))) / 2 if flip else logits)
    if not found:
        raise ValueError("`batches` must yield at least one batch; got none.")
    return two_columns(torch.cat(found, 1)), voters


def _check_activation(voters: Voters | None) -> None:
    """Refuse an ensemble whose outputs are no logits."""
    if voters is not None and voters.activation != "softmax":
        what, use = (
            ("probabilities", "learner_proba") if voters.activation == "identity" else ("numbers", "predict")
        )
        raise ValueError(f"`ensemble` must return logits; got one that returns {what}: use its `{use}`.")


def _images(batch: Any, device: torch.device) -> Images:
    """Return the images of a batch, on the device; labels are not needed and not moved."""
    parts = batch if isinstance(batch, list | tuple) else (batch,)
    x: Any = parts[0] if 0 < len(parts) < 4 else None
    views = x if isinstance(x, list | tuple) else [x]
    if not views or not all(isinstance(view, Tensor) for view in views):
        raise TypeError(
            f"`batches` must yield tensors, as x, (x, y) or (x, y, sample_weight); got {type(batch).__name__}."
        )
    moved: list[Tensor] = [view.to(device, non_blocking=True) for view in views]
    return moved[0] if isinstance(x, Tensor) else moved


def _outputs(ensemble: nn.Module, x: Images) -> Tensor:
    """Return the outputs (n_learners, batch, n_classes) in float32."""
    outputs = forward_batch(ensemble, x, "batches")
    if not isinstance(outputs, Tensor) or outputs.dim() != 3:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(f"`ensemble` must return (n_learners, batch, n_classes); got {got}.")
    return outputs.float()


def _mirrored(x: Images) -> Images:
    return x.flip(-1) if isinstance(x, Tensor) else [view.flip(-1) for view in x]
