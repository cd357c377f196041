"""What each learner of an ensemble says of images."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from counterpoint.training.correlation import two_columns
from counterpoint.training.ensemble import evaluating
from counterpoint.training.preparation import autocast, on_device

__all__ = ["predict_logits"]


def predict_logits(
    ensemble: nn.Module, batches: Iterable[Any], *, flip: bool = False, precision: str = "auto"
) -> Tensor:
    """Return the logits of every learner for every image, in evaluation mode.

    Parameters
    ----------
    ensemble : Module
        An :class:`~counterpoint.training.Ensemble`, or any module that puts out ``(n_learners, batch, n_classes)``.
        Its mode is left as it was.
    batches : iterable of (x, y) or (x, y, weight)
        The images; of the rest nothing is used.
    flip : bool, default=False
        Whether to average the logits of each image and of its mirror image.
    precision : {"auto", "float32", "bf16"}, default="auto"
        ``"bf16"`` runs the networks under autocast to bfloat16; ``"auto"`` does so on CUDA.

    Returns
    -------
    Tensor, shape (n_learners, n_samples, n_classes)
        In float32, on the device of the ensemble; learners with one logit for two classes get both. The ensemble's
        read-out is applied where it has one, so that ``softmax(-1)`` gives what ``Ensemble.member_proba`` does.

    Examples
    --------
    >>> from counterpoint.training import Ensemble
    >>> from counterpoint.vision import backbone
    >>> ensemble = Ensemble([backbone("convnet", 10, width=4) for _ in range(3)])
    >>> batches = [(torch.rand(4, 3, 32, 32), torch.zeros(4)) for _ in range(2)]
    >>> predict_logits(ensemble, batches, flip=True).shape
    torch.Size([3, 8, 10])
    """
    device = next(ensemble.parameters()).device
    readout = getattr(ensemble, "readout", None)
    found = []
    with evaluating(ensemble), autocast(precision, device):
        for batch in batches:
            x, *_ = on_device(batch, device, "batches")
            logits = ensemble(x).float()
            if logits.dim() != 3:
                raise ValueError(
                    f"`ensemble` must put out (n_learners, batch, n_classes); got {tuple(logits.shape)}."
                )
            found.append((logits + ensemble(_mirrored(x)).float()) / 2 if flip else logits)
    if not found:
        raise ValueError("`batches` must give at least one batch; got none.")
    together = two_columns(torch.cat(found, 1))
    with torch.no_grad():
        return together if readout is None else readout(together)


def _mirrored(x: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return x.flip(-1) if isinstance(x, Tensor) else [view.flip(-1) for view in x]
