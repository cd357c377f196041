"""The networks of an estimator, made from its parameters."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from counterpoint._validation import check_count
from counterpoint.estimators.table_encoder import TableEncoder
from counterpoint.training import Ensemble, mlp
from counterpoint.training.networks import FeatureMask

__all__ = ["Module", "check_networks", "check_trained", "make_networks", "network_parameters"]

Module = Callable[[int, int], nn.Module] | Sequence[nn.Module] | None


def make_networks(
    module: Module,
    n_estimators: int,
    hidden_layer_sizes: int | Sequence[int],
    encoder: TableEncoder,
    n_classes: int | None,
) -> list[nn.Module]:
    """Return networks for the task: new ones, or copies of those given. Torch's generator draws their weights.

    Without classes, for regression, they have one output.
    """
    n_features, n_outputs = encoder._n_out, 1 if n_classes is None else n_classes
    if module is None:
        sizes = np.ravel(hidden_layer_sizes).tolist()
        if sizes:
            check_count(hidden_layer_sizes, "hidden_layer_sizes", minimum=1)
        networks: list[nn.Module] = [mlp([n_features, *sizes, n_outputs]) for _ in range(n_estimators)]
        if encoder._is_piece.any():
            networks = [_with_view(network, encoder, i) for i, network in enumerate(networks)]
    elif callable(module) and not isinstance(module, nn.Module):
        networks = [module(n_features, n_outputs) for _ in range(n_estimators)]
    elif isinstance(module, list | tuple):
        networks = [copy.deepcopy(network) for network in module]
    else:
        raise TypeError(
            f"`module` must be None, a callable that returns a network, or a list of networks; got {module!r}."
        )
    for network in networks:
        _check_network(network, n_features, n_classes)
    return networks


@torch.no_grad()
def _with_view(network: nn.Module, encoder: TableEncoder, place: int) -> nn.Module:
    """Return a perceptron that sees all columns if its place is even, else those that are no pieces."""
    is_seen = torch.as_tensor(~encoder._is_piece | (place % 2 == 0))
    first = next(part for part in network.modules() if isinstance(part, nn.Linear))
    for parameter in (first.weight, first.bias):  # as for a layer with as many inputs as are seen
        parameter *= (len(is_seen) / int(is_seen.sum())) ** 0.5
    return nn.Sequential(FeatureMask(is_seen), *network)  # type: ignore[misc]


def check_trained(ensemble: Ensemble) -> list[nn.Parameter]:
    """Return the parameters to train, of which there must be at least one."""
    trained = [parameter for parameter in ensemble.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError(
            "`module` must return networks with parameters to train; got networks that are all frozen."
        )
    return trained


def network_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that define the networks, without a callable `module`: two callables cannot be compared."""
    inputs = {"n_pieces": getattr(estimator, "n_pieces", 0)}  # regressors have none
    if isinstance(estimator.module, list | tuple):
        return {"module": list(estimator.module), **inputs}
    counted = {"n_estimators": int(estimator.n_estimators), **inputs}
    if estimator.module is not None:
        return counted
    return {"module": None, **counted, "hidden_layer_sizes": np.ravel(estimator.hidden_layer_sizes).tolist()}


def check_networks(estimator: Any, before: dict[str, Any]) -> None:
    """Refuse to continue training networks that differ from those the parameters define."""
    now = {"module": estimator.module} | network_parameters(estimator)
    for name, value in before.items():
        if now.get(name) != value:
            raise ValueError(
                f"`{name}` must stay {value!r:.80} when training continues; got {getattr(estimator, name)!r:.80}."
            )


@torch.no_grad()
def _check_network(network: Any, n_features: int, n_classes: int | None) -> None:
    """Run a network on two rows of zeros and check its output."""
    if not isinstance(network, nn.Module):
        raise TypeError(f"`module` must return torch Modules; got {network!r}.")
    parameter = next(network.parameters(), None)
    if parameter is None:
        raise ValueError(f"`module` must return networks with parameters to train; got {network!r}.")
    training = network.training
    try:
        found = network.eval()(torch.zeros(2, n_features, dtype=torch.float32, device=parameter.device))
    except RuntimeError as error:
        rule = f"take {n_features} features in float32"
        raise ValueError(f"`module` must return networks that {rule}; got: {error}") from error
    network.train(training)
    widths = (1,) if n_classes is None else (1, 2) if n_classes == 2 else (n_classes,)
    shape = tuple(found.shape) if isinstance(found, Tensor) else None
    if shape not in [(2, width) for width in widths]:
        what = "number" if n_classes is None else "logits"
        rule = f"one row of {' or '.join(map(str, widths))} {what} for each sample, as a tensor"
        got = f"a {type(found).__name__}" if shape is None else f"shape {shape} for 2 samples"
        raise ValueError(f"`module` must return networks that put out {rule}; got {got}.")
