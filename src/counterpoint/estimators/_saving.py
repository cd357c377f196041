"""Fitted estimators as one file: tensors in safetensors, the rest as JSON in its header. No pickle, no code."""

import os
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from counterpoint._validation import find_fault, short
from counterpoint.estimators._networks import Module, make_networks, network_parameters
from counterpoint.estimators._one_hot import NominalColumn
from counterpoint.estimators.table_encoder import TableEncoder
from counterpoint.training import (
    Ensemble,
    History,
    Readout,
    load_checkpoint,
    pick_device,
    save_checkpoint,
    seeded,
)

__all__ = ["load", "save"]

_FORMAT = 2
# Parameters that may hold code or belong to a machine, and are left out of a file.
_NOT_KEPT = ("module", "loss", "device")
# What a file holds at least; a classifier's holds its classes too, a regressor's the scale of its targets.
_NUMBERS = torch.Tensor
_SCALER = {"mean": _NUMBERS, "var": _NUMBERS, "scale": _NUMBERS, "n_samples_seen": _NUMBERS}
_ENCODER = {
    "standardize": bool,
    "means": _NUMBERS,
    "missing": [int],
    "n_pieces": int,
    "knots": [_NUMBERS],
    "nominal": [{"position": int, "categories": list, "infrequent": (list, type(None))}],
}
_SCHEMA = {
    "parameters": dict,
    "module": (str, type(None)),
    "n_features": int,
    "feature_names": (list, type(None)),
    "learners": [dict],
    "readout": (dict, type(None)),
    "vote": _NUMBERS,
    "scaler": (dict, type(None)),
    "encoder": _ENCODER,
    "history": dict,
}
_CLASSES = {"values": list, "dtype": str}
_MOST_BYTES = 2**26  # of the classes
# What NumPy, pandas, scikit-learn and torch raise for values that do not fit together.
_DAMAGE = (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral):
        parameters["random_state"] = None  # the state of a generator moves on
    kept = {name: _plain(value) for name, value in parameters.items() if name not in _NOT_KEPT}
    learners = estimator.ensemble_.learners
    readout, scaler = estimator.ensemble_.readout, estimator.scaler_
    save_checkpoint(
        path,
        {
            "format": _FORMAT,
            "parameters": kept,
            "module": None if estimator.module is None else _name(estimator.module),
            **_task(estimator),
            "n_features": estimator.n_features_in_,
            "feature_names": _plain(getattr(estimator, "feature_names_in_", None)),
            "learners": [learner.state_dict() for learner in learners],
            "readout": None if readout is None else readout.state_dict(),
            "vote": estimator.ensemble_.get_extra_state(),
            "scaler": None if scaler is None else _scaler_state(scaler),
            "encoder": _encoder_state(estimator.encoder_),
            "history": estimator.history_.to_dict(),
        },
    )


def _task(estimator: Any) -> dict[str, Any]:
    """Return what is particular to a classifier: its loss and classes; or to a regressor: the scale of its targets."""
    if not is_classifier(estimator):
        return {"target": _scaler_state(estimator.target_scaler_)}
    return {
        "loss": estimator.loss if isinstance(estimator.loss, str) else {"custom": _name(estimator.loss)},
        "classes": {"values": estimator.classes_.tolist(), "dtype": _kind(estimator.classes_)},
    }


def load(cls: Any, path: str | os.PathLike[str], module: Module, loss: nn.Module | str | None) -> Any:
    """Return the estimator that a file holds."""
    state = load_checkpoint(path)
    if not isinstance(found := state.get("format"), int) or found != _FORMAT:
        raise ValueError(
            f"`path` must be a file that `save` wrote, of format {_FORMAT}; got {os.fspath(path)!r}, of format "
            f"{short(found)}."
        )
    if fault := _find_fault(state, Path(path).stat().st_size):
        raise ValueError(
            f"`path` must be a file that `save` wrote; got {os.fspath(path)!r}, in which {fault}."
        )
    if module is None and state["module"] is not None:
        raise ValueError(f"`module` must be given, for networks of {state['module']}; got None.")
    if ("classes" in state) != issubclass(cls, ClassifierMixin):
        kind = "classifier" if "classes" in state else "regressor"
        raise ValueError(f"`path` must be the file of a {cls.__name__}; got that of a {kind}.")
    if loss is None and isinstance(state.get("loss"), str):
        loss = state["loss"]  # else None, with which the estimator predicts, and refuses to train
    try:
        estimator = _unfitted(cls, state, module, loss)
        n_learners = len(state["learners"])
        if module is None:
            _check_sizes(estimator, state["learners"])
            estimator.ensemble_ = _ensemble(estimator, state["learners"])
    except _DAMAGE as error:
        raise _unfit(path) from error
    if module is not None:  # one that does not fit has errors of its own
        estimator.ensemble_ = _ensemble(estimator, state["learners"])
    try:
        _set_learned(estimator, state, n_learners)
    except _DAMAGE as error:
        raise _unfit(path) from error
    return estimator


def _unfit(path: str | os.PathLike[str]) -> ValueError:
    return ValueError(
        f"`path` must be a file that `save` wrote; got {os.fspath(path)!r}, whose parts do not fit together."
    )


def _unfitted(cls: Any, state: dict[str, Any], module: Module, loss: Any) -> Any:
    """Return the estimator without its networks."""
    own: dict[str, Any] = {}
    if "classes" in state:
        own = {"loss": loss}
    estimator = cls(**state["parameters"], module=module, **own)
    if "classes" in state:
        classes = state["classes"]
        estimator.classes_ = np.array(classes["values"], dtype=classes["dtype"])
    else:
        estimator.target_scaler_ = _scaler(state["target"], 1)
    estimator.n_features_in_ = state["n_features"]
    if (names := state["feature_names"]) is not None:
        if len(names) != state["n_features"]:
            raise ValueError("one name for each feature")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.encoder_ = _encoder(estimator, state)
    return estimator


def _set_learned(estimator: Any, state: dict[str, Any], n_learners: int) -> None:
    """Set what belongs to the networks."""
    estimator._networks = network_parameters(estimator)
    if "n_estimators" in estimator._networks:  # the parameter may have changed since the fit
        estimator._networks["n_estimators"] = n_learners
    estimator.ensemble_.set_extra_state(state["vote"])
    if state["readout"] is not None:
        device = next(estimator.ensemble_.parameters()).device
        readout = Readout(**state["readout"]).to(device)
        readout(torch.zeros(n_learners, 1, max(len(getattr(estimator, "classes_", ())), 1), device=device))
        estimator.ensemble_.readout = readout
    estimator.history_ = History.from_dict(state["history"])


def _find_fault(state: dict[str, Any], n_bytes: int) -> str:
    """Return what is wrong with the state of a file of this size, or an empty string, before anything is made of it."""
    task = {"classes": _CLASSES} if "classes" in state else {"target": _SCALER}
    parts: dict[str, Any] = {"scaler": _SCALER} if state.get("scaler") is not None else {}
    if fault := find_fault(state, _SCHEMA | task | parts):
        return fault
    weights = [value for learner in state["learners"] for value in learner.values()]
    if not weights or not all(isinstance(value, torch.Tensor) for value in weights):
        return "the learners hold no weights"
    if sum(value.numel() for value in weights) > n_bytes:
        return "the learners have more weights than the file"
    if "classes" in state:
        values, dtype = state["classes"]["values"], state["classes"]["dtype"]
        try:
            found = np.dtype(dtype)
        except (TypeError, ValueError):
            return "the classes have an unknown type"
        # In NumPy 1 the size of an item may overflow.
        if found.kind not in "biufUO" or not 0 <= found.itemsize * len(values) <= _MOST_BYTES:
            return "the classes have an unknown type"
        if not values or not all(isinstance(value, str | int | float) for value in values):
            return "the classes are no labels"
    if not 0 < state["n_features"] <= n_bytes:
        return f"n_features is {state['n_features']}"
    return ""


def _check_sizes(estimator: Any, states: list[dict[str, torch.Tensor]]) -> None:
    """Raise ValueError if the perceptrons to make are larger than those of the file, before they are made."""
    n_outputs = len(estimator.classes_) if is_classifier(estimator) else 1
    sizes = [estimator.encoder_._n_out, *np.ravel(estimator.hidden_layer_sizes).tolist(), n_outputs]
    needed = sum((inside + 1) * outside for inside, outside in pairwise(sizes))
    held = min(sum(value.numel() for value in state.values()) for state in states)
    if needed > held:
        raise ValueError(f"{needed} weights, of which the file holds {held}")


def _ensemble(estimator: Any, states: list[dict[str, torch.Tensor]]) -> Ensemble:
    with seeded(torch.device("cpu"), 0):  # the initial weights are overwritten
        networks = make_networks(
            estimator.module,
            len(states),
            estimator.hidden_layer_sizes,
            estimator.encoder_,
            len(estimator.classes_) if is_classifier(estimator) else None,
        )
    if len(networks) != len(states):
        raise ValueError(f"`module` must hold {len(states)} networks, as the file does; got {len(networks)}.")
    for network, state in zip(networks, states, strict=True):
        try:
            network.load_state_dict(state)
        except RuntimeError as error:
            raise ValueError(
                f"`module` must return networks like those that were saved; got: {error}"
            ) from error
    own = {"voting": estimator.voting} if is_classifier(estimator) else {"activation": "regression"}
    return Ensemble(networks, **own).to(pick_device(estimator.device)).eval()


def _scaler_state(scaler: StandardScaler) -> dict[str, Any]:
    seen = np.broadcast_to(np.asarray(scaler.n_samples_seen_, dtype=np.float64), scaler.mean_.shape)
    return {
        "mean": torch.as_tensor(scaler.mean_),
        "var": torch.as_tensor(scaler.var_),
        "scale": torch.as_tensor(scaler.scale_),
        "n_samples_seen": torch.as_tensor(seen.copy()),
    }


def _scaler(state: dict[str, torch.Tensor], n_columns: int) -> StandardScaler:
    scaler = StandardScaler()
    if any(value.shape != (n_columns,) for value in state.values()):
        raise ValueError(f"{n_columns} columns")
    scaler.mean_, scaler.var_, scaler.scale_ = (state[name].numpy() for name in ("mean", "var", "scale"))
    scaler.n_samples_seen_ = state["n_samples_seen"].numpy()
    scaler.n_features_in_ = len(scaler.mean_)
    return scaler


def _encoder_state(encoder: TableEncoder) -> dict[str, Any]:
    values = [value for categories in encoder.categories_ for value in categories]
    for value in values:
        if not isinstance(value, str | bool | int | float | None):
            raise TypeError(
                f"`X` must have held nominal values that are text, numbers or booleans, to be saved; got {value!r}."
            )
    return {
        "standardize": bool(encoder.standardize),
        "means": torch.as_tensor(encoder._means),
        "missing": encoder.missing_features_.tolist(),
        "n_pieces": int(encoder.n_pieces),
        "knots": [torch.as_tensor(knots) for knots in encoder._knots],
        "nominal": [
            {
                "position": int(j),
                "categories": column.categories.tolist(),
                "infrequent": _plain(column.infrequent),
            }
            for j, column in zip(encoder._known, encoder._nominal, strict=True)
        ],
    }


def _encoder(estimator: Any, state: dict[str, Any]) -> TableEncoder:
    """Return the encoder of a file."""
    encoder = TableEncoder(estimator.categorical_features)
    encoder.n_features_in_ = n_features = state["n_features"]
    if hasattr(estimator, "feature_names_in_"):
        encoder.feature_names_in_ = estimator.feature_names_in_
    scaled = state["scaler"]
    learned = state["encoder"]
    encoder.standardize = learned["standardize"]
    encoder._known, columns = {}, []
    for entry in learned["nominal"]:
        infrequent = None if entry["infrequent"] is None else np.array(entry["infrequent"], dtype=object)
        categories = np.array(entry["categories"], dtype=object)
        values = [value for value in categories if value is not None]
        encoder._known[_position(entry["position"], n_features)] = pd.Index(values, dtype=object)
        columns.append(NominalColumn.with_values(values, categories, infrequent))
    missing = [_position(place, n_features) for place in learned["missing"]]
    encoder._set_columns(columns, np.array(missing, dtype=np.int64))
    n_numbers = len(encoder._numeric)
    encoder.scaler_ = None if scaled is None else _scaler(scaled, n_numbers)
    encoder._means = learned["means"].numpy()
    encoder.n_pieces = learned["n_pieces"]
    encoder._knots = [knots.numpy() for knots in learned["knots"]]
    if encoder._means.shape != (n_numbers,) or len(encoder._knots) != n_numbers:
        raise ValueError(f"{n_numbers} numbers")
    return encoder


def _position(place: int, n_features: int) -> int:
    if not 0 <= place < n_features:
        raise ValueError(f"feature {place} of {n_features}")
    return place


def _kind(classes: NDArray[Any]) -> str:
    return "object" if classes.dtype == object else classes.dtype.str


def _name(thing: Any) -> str:
    if isinstance(thing, list | tuple):
        return f"a list of {', '.join(type(network).__name__ for network in thing)}"
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
