"""How an ensemble holds up: fewer learners, rounded weights, corrupted images, and images of unknown classes.

Notation: N learners, n images, m classes. Outputs are logits (N, n, m) before any read-out.
"""

import copy
import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from counterpoint.training import Ensemble, Vote
from counterpoint.vision import ImageBatches, predict_logits
from paper.convnets.corruptions import CORRUPTIONS, corrupt
from paper.convnets.measures import scores, without_readout

__all__ = ["doubts", "robustness", "rounded", "shift", "subsets"]

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

BATCH = 2000
N_SUBSETS = 20  # of each size
STRENGTHS = range(1, 6)


def robustness(
    ensemble: Ensemble,
    images: NDArray[np.uint8],
    y: Labels,
    unknown: NDArray[np.uint8] | None,
    device: torch.device,
    *,
    size: int | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return how well a trained ensemble votes on the test images under four kinds of stress.

    Parameters
    ----------
    ensemble : Ensemble
        On the device; it stays unchanged.
    images : array of uint8, shape (n, height, width, 3)
        Test images.
    y : array of int, shape (n,)
        Their true classes.
    unknown : array of uint8, shape (n, height, width, 3), or None
        Images of other classes than those that the ensemble knows.
    device : torch.device
        Device of the ensemble.
    size : int, optional
        Pixels that images are resized to, after any corruption; by default they keep their size.
    random_state : int, default=0
        Seed of the subsets of learners and of the noise in the images.

    Returns
    -------
    dict
        Content for JSON:

        - ``"k_of_n"``: for each k from 1 to N, ``k``, ``n_subsets``, and over these subsets of k learners the mean
          ``error``, its standard deviation ``error_sd`` and the mean ``log_loss``; see :func:`subsets`.
        - ``"int8"``: the scores of the vote with weights of 8 bits, and ``learner_errors``; see :func:`rounded`.
        - ``"shift"``: for each corruption the scores of the vote at strengths 1 to 5, and under ``"mean"`` their means
          over all corruptions and strengths; see :func:`shift`.
        - ``"unknown"``: areas under the ROC curve for telling unknown from test images by each of :func:`doubts`; None
          without unknown images.
        - ``"wrong"``: the same for telling wrong from right votes on the test images; NaN if there is no such vote.

    Examples
    --------
    >>> from counterpoint.vision import backbone
    >>> from paper.convnets.images import ImageSets
    >>> digits = ImageSets(None, smoke=True)["digits"]
    >>> ensemble = Ensemble([backbone("convnet", 10, width=2) for _ in range(3)])
    >>> found = robustness(ensemble, digits.x_test, digits.y_test, None, torch.device("cpu"))
    >>> list(found), len(found["k_of_n"]), len(found["shift"]["jpeg"])
    (['k_of_n', 'int8', 'shift', 'unknown', 'wrong'], 3, 5)
    """
    x = torch.tensor(images, device=device)
    outputs = _outputs(ensemble, x, size)
    own, wrong = doubts(ensemble, outputs), _vote(ensemble, outputs).argmax(1) != y
    other = None
    if unknown is not None:
        other = doubts(ensemble, _outputs(ensemble, torch.tensor(unknown, device=device), size))
    return {
        "k_of_n": subsets(ensemble, outputs, y, random_state=random_state),
        "int8": _int8(ensemble, x, y, size),
        "shift": shift(ensemble, x, y, size=size, random_state=random_state),
        "unknown": other and {name: _auroc(own[name], other[name]) for name in own},
        "wrong": {name: _auroc(each[~wrong], each[wrong]) for name, each in own.items()},
    }


def subsets(ensemble: Ensemble, outputs: Tensor, y: Labels, *, random_state: int = 0) -> list[dict[str, Any]]:
    """Return error and log-loss of votes of k learners, for each k from 1 to N.

    Parameters
    ----------
    ensemble : Ensemble
        Its vote is used: its kind, the weights of the learners, and the read-out if there is one.
    outputs : Tensor, shape (N, n, m)
        Logits of its learners before any read-out.
    y : array of int, shape (n,)
        The true classes.
    random_state : int, default=0
        Seed of the choice of 20 subsets where there are more.

    Returns
    -------
    list of dict
        ``k``, ``n_subsets``, ``error``, ``error_sd`` and ``log_loss``: means over the subsets, and the standard
        deviation of the error over them, which is 0 for the one subset of all learners.

    Notes
    -----
    Nothing is fitted again. After :class:`~counterpoint.training.CorrelationLoss` the vote decodes the mean of the
    standardised outputs of all learners. For a subset it decodes the mean of those by the same scale and offset. That
    mean varies more, the fewer the learners: a vote of one or two is too confident, and the read-out that each learner
    has for its own predictions would give it a lower log-loss.

    Examples
    --------
    >>> ensemble = Ensemble([nn.Linear(4, 3) for _ in range(7)])
    >>> outputs, y = torch.randn(7, 50, 3), np.arange(50) % 3
    >>> [each["n_subsets"] for each in subsets(ensemble, outputs, y)]
    [7, 20, 20, 20, 20, 7, 1]
    """
    rng = np.random.default_rng(random_state)
    rule, truth = ensemble.rule, torch.as_tensor(y, device=outputs.device)
    combined = rule.learners(outputs)  # log-probabilities
    found = []
    for k in range(1, ensemble.n_learners + 1):
        errors, losses = [], []
        for chosen in _choices(ensemble.n_learners, k, rng):
            some = list(chosen)
            share = ensemble.weights[some] / ensemble.weights[some].sum()
            proba = Vote(rule.kind, weights=share)(combined[some])
            errors.append((proba.argmax(-1) != truth).double().mean())
            likelihood = proba.double().gather(1, truth[:, None])
            losses.append(-likelihood.clamp(min=np.finfo(np.float64).eps).log().mean())
        error, loss = (torch.stack(each).cpu().numpy() for each in (errors, losses))
        spread = {
            "error": float(error.mean()),
            "error_sd": float(error.std()),
            "log_loss": float(loss.mean()),
        }
        found.append({"k": k, "n_subsets": len(error), **spread})
    return found


def rounded(ensemble: Ensemble) -> Ensemble:
    """Return a copy of the learners with weights of 8 bits.

    Parameters
    ----------
    ensemble : Ensemble
        It stays unchanged.

    Returns
    -------
    Ensemble
        On the same device. It has neither the read-out nor the vote of the original, whose ``rule`` applies to its
        outputs.

    Notes
    -----
    The weights of each output channel of a convolution or linear layer become multiples from -127 to 127 of the
    channel's largest absolute weight divided by 127. Biases, normalisation and activations keep their precision: what
    is measured is the rounding of stored weights, on any device. Dynamic quantisation in torch covers linear layers
    alone, on the CPU.

    Examples
    --------
    >>> ensemble = Ensemble([nn.Linear(4, 3) for _ in range(2)])
    >>> weight = rounded(ensemble).learners[0].weight
    >>> steps = 127 * weight / weight.abs().amax(1, keepdim=True)
    >>> torch.allclose(steps, steps.round(), atol=1e-4)
    True
    """
    learners = copy.deepcopy(ensemble.learners)
    for learner in learners:
        for layer in learner.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.weight.data = _rounded_weight(layer.weight.data)
    return Ensemble(learners).to(ensemble.weights.device)


def shift(
    ensemble: Ensemble, x: Tensor, y: Labels, *, size: int | None = None, random_state: int = 0
) -> dict[str, Any]:
    """Return the scores of the vote on corrupted images: five for each corruption, and their means.

    Beside them are the ``learner_errors``, one for each learner.

    Parameters
    ----------
    ensemble : Ensemble
        It stays unchanged.
    x : Tensor of uint8, shape (n, height, width, 3)
        The images, on the device of the ensemble.
    y : array of int, shape (n,)
        The true classes.
    size : int, optional
        Pixels that corrupted images are resized to; by default they keep their size.
    random_state : int, default=0
        Seed of the noise.

    Examples
    --------
    >>> from counterpoint.vision import backbone
    >>> ensemble = Ensemble([backbone("convnet", 10, width=2) for _ in range(2)])
    >>> found = shift(ensemble, torch.zeros(10, 8, 8, 3, dtype=torch.uint8), np.arange(10))
    >>> list(found)
    ['noise', 'blur', 'contrast', 'pixelate', 'jpeg', 'mean']
    >>> found["mean"]["error"]
    0.9
    """
    found: dict[str, Any] = {}
    for name in CORRUPTIONS:
        each = (corrupt(x, name, strength, random_state=random_state) for strength in STRENGTHS)
        found[name] = [_with_learners(ensemble, _outputs(ensemble, changed, size), y) for changed in each]
    every = [one for each in found.values() for one in each]
    return {**found, "mean": {key: np.mean([one[key] for one in every], axis=0).tolist() for key in every[0]}}


def doubts(ensemble: Ensemble, outputs: Tensor) -> dict[str, Floats]:
    r"""Return measures of how much an ensemble doubts its vote on each image; high is doubtful.

    Parameters
    ----------
    ensemble : Ensemble
        Its vote is used, and for the probabilities of its learners its read-out, if there is one.
    outputs : Tensor, shape (N, n, m)
        Logits of its learners before any read-out.

    Returns
    -------
    dict of array, shape (n,)
        Two measures of the vote: ``"confidence"``, one minus its highest probability, and its ``"entropy"``. And two of
        the learners: ``"mutual_information"``, the entropy of their mean probabilities minus their mean entropy, which
        is the mean of :math:`\mathrm{KL}(p_i \| \bar p)`; and ``"disagreement"``, the share of their pairs that choose
        different classes, which is NaN for one learner.

    Examples
    --------
    >>> ensemble = Ensemble([nn.Linear(4, 2) for _ in range(2)])
    >>> outputs = torch.tensor([[[9.0, 0.0], [9.0, 0.0]], [[9.0, 0.0], [0.0, 9.0]]])
    >>> doubts(ensemble, outputs)["disagreement"]
    array([0., 1.])
    """
    readout, n_learners = ensemble.rule.readout, len(outputs)
    proba = (outputs if readout is None else readout(outputs)).double().softmax(-1)
    vote = torch.as_tensor(_vote(ensemble, outputs), device=outputs.device)
    counts = nn.functional.one_hot(proba.argmax(-1), proba.shape[-1]).sum(0)  # (n, m)
    equal = (counts * (counts - 1)).sum(-1).double() / (n_learners * (n_learners - 1) or math.nan)
    found = {
        "confidence": 1 - vote.amax(-1),
        "entropy": _entropy(vote),
        "mutual_information": _entropy(proba.mean(0)) - _entropy(proba).mean(0),
        "disagreement": 1 - equal,
    }
    return {name: each.cpu().numpy() for name, each in found.items()}


def _outputs(ensemble: Ensemble, x: Tensor, size: int | None) -> Tensor:
    """Return logits (N, n, m) before any read-out, for images (n, H, W, 3) on the device of the ensemble."""
    labels = np.zeros(len(x), dtype=np.int64)
    batches = ImageBatches(x, labels, batch_size=BATCH, size=size, augment=False, device=x.device)
    with without_readout(ensemble):
        return predict_logits(ensemble, batches)


def _vote(ensemble: Ensemble, outputs: Tensor) -> Floats:
    """Return the probabilities (n, m) of the ensemble's vote."""
    vote: Floats = ensemble.rule(outputs).cpu().double().numpy()
    return vote


def _int8(ensemble: Ensemble, x: Tensor, y: Labels, size: int | None) -> dict[str, Any]:
    return _with_learners(ensemble, _outputs(rounded(ensemble), x, size), y)


def _with_learners(ensemble: Ensemble, outputs: Tensor, y: Labels) -> dict[str, Any]:
    """Return the scores of the vote, and the errors of the learners."""
    readout = ensemble.rule.readout
    labels = (outputs if readout is None else readout(outputs)).argmax(-1).cpu().numpy()  # (N, n)
    return {**scores(y, _vote(ensemble, outputs)), "learner_errors": (labels != y).mean(1).tolist()}


def _rounded_weight(weight: Tensor) -> Tensor:
    """Return a weight with each output channel, on the first axis, rounded to 255 steps around 0."""
    step = weight.flatten(1).abs().amax(1) / 127
    step = step.clamp(min=torch.finfo(weight.dtype).tiny)  # a channel of zeros stays one
    zero = torch.zeros(len(weight), dtype=torch.int32, device=weight.device)
    found: Tensor = torch.fake_quantize_per_channel_affine(weight, step, zero, 0, -127, 127)
    return found


def _choices(n: int, k: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Return all subsets of k of n learners, or 20 different ones at random if there are more."""
    if math.comb(n, k) <= N_SUBSETS:
        return combinations(range(n), k)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < N_SUBSETS:
        found[tuple(sorted(rng.choice(n, k, replace=False).tolist()))] = None
    return iter(found)


def _entropy(proba: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(proba).sum(-1)
    return entropy


def _auroc(low: Floats, high: Floats) -> float:
    """Return the probability that a value of ``high`` exceeds one of ``low``; NaN if it is undefined."""
    from sklearn.metrics import roc_auc_score

    together = np.concatenate([low, high])
    if not len(low) or not len(high) or np.isnan(together).any():
        return math.nan
    return float(roc_auc_score(np.repeat([0, 1], [len(low), len(high)]), together))
