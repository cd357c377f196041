"""Fitted estimators as one file: tensors in safetensors, the rest as JSON in its header. No pickle, no code."""

import os
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.preprocessing import StandardScaler
from torch import nn

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
    if state.get("format") != _FORMAT:
        raise ValueError(
            f"`path` must be a file that `save` wrote, of format {_FORMAT}; got {os.fspath(path)!r}, of format "
            f"{state.get('format')!r}."
        )
    if module is None and state["module"] is not None:
        raise ValueError(f"`module` must be given, for networks of {state['module']}; got None.")
    if ("classes" in state) != issubclass(cls, ClassifierMixin):
        kind = "classifier" if "classes" in state else "regressor"
        raise ValueError(f"`path` must be the file of a {cls.__name__}; got that of a {kind}.")
    if loss is None and isinstance(state.get("loss"), str):
        loss = state["loss"]  # else None, with which the estimator predicts, and refuses to train
    own: dict[str, Any] = {}
    parameters = dict(state["parameters"])
    if "classes" in state:
        own = {"loss": loss}
        parameters = {"n_pieces": 0} | parameters  # as in files from before there were pieces
    estimator = cls(**parameters, module=module, **own)
    if "classes" in state:
        classes = state["classes"]
        estimator.classes_ = np.array(classes["values"], dtype=classes["dtype"])
    else:
        estimator.target_scaler_ = _scaler(state["target"])
    estimator.n_features_in_ = state["n_features"]
    if state["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    estimator.encoder_ = _encoder(estimator, state)
    estimator.ensemble_ = _ensemble(estimator, state["learners"])
    estimator._networks = network_parameters(estimator)
    if "n_estimators" in estimator._networks:  # the parameter may have changed since the fit
        estimator._networks["n_estimators"] = len(state["learners"])
    estimator.ensemble_.set_extra_state(state["vote"])
    if state["readout"] is not None:
        device = next(estimator.ensemble_.parameters()).device
        estimator.ensemble_.readout = Readout(**state["readout"]).to(device)
    estimator.history_ = History.from_dict(state["history"])
    return estimator


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


def _scaler(state: dict[str, torch.Tensor]) -> StandardScaler:
    scaler = StandardScaler()
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
    """Return the encoder of a file; one that was written before there were encoders has a table of numbers."""
    encoder = TableEncoder(estimator.categorical_features)
    encoder.n_features_in_ = n_features = state["n_features"]
    if hasattr(estimator, "feature_names_in_"):
        encoder.feature_names_in_ = estimator.feature_names_in_
    scaler = None if state["scaler"] is None else _scaler(state["scaler"])
    means = torch.zeros(n_features, dtype=torch.float64) if scaler is None else torch.as_tensor(scaler.mean_)
    older = {"standardize": scaler is not None, "means": means, "missing": [], "nominal": []}
    learned = state.get("encoder", older)
    encoder.standardize = learned["standardize"]
    encoder._known, columns = {}, []
    for entry in learned["nominal"]:
        infrequent = None if entry["infrequent"] is None else np.array(entry["infrequent"], dtype=object)
        categories = np.array(entry["categories"], dtype=object)
        values = [value for value in categories if value is not None]
        encoder._known[entry["position"]] = pd.Index(values, dtype=object)
        columns.append(NominalColumn.with_values(values, categories, infrequent))
    encoder._set_columns(columns, np.array(learned["missing"], dtype=np.int64))
    encoder._means, encoder.scaler_ = learned["means"].numpy(), scaler
    encoder.n_pieces = learned.get("n_pieces", 0)
    if "knots" in learned:
        encoder._knots = [knots.numpy() for knots in learned["knots"]]
    return encoder


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
