"""A fitted ensemble as one ONNX file, from the features to the vote."""

import json
import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._extras import import_extra
from counterpoint.training.readout import Readout

if TYPE_CHECKING:
    from counterpoint.estimators.diverse import DiverseEnsembleClassifier

__all__ = ["export"]


class _Deployed(nn.Module):
    """Standardise, run the networks, read them out, vote."""

    mean: Tensor
    scale: Tensor

    def __init__(self, estimator: "DiverseEnsembleClassifier") -> None:
        super().__init__()
        scaler, n_features = estimator.scaler_, estimator.n_features_in_
        mean = np.zeros(n_features) if scaler is None else scaler.mean_
        scale = np.ones(n_features) if scaler is None else scaler.scale_
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32))
        n_classes = len(estimator.classes_)
        self.learners = nn.ModuleList(estimator.ensemble_.learners)
        self.readout = estimator.readout_ or Readout.identity(len(self.learners), n_classes)
        self.hard = estimator.voting == "hard"

    def forward(self, features: Tensor) -> Tensor:
        x = (features - self.mean) / self.scale
        proba: Tensor = self.readout(torch.stack([learner(x) for learner in self.learners])).softmax(-1)
        if self.hard:
            proba = F.one_hot(proba.argmax(-1), proba.shape[-1]).to(features.dtype)
        return proba.mean(0)


def export(estimator: "DiverseEnsembleClassifier", path: str | os.PathLike[str]) -> None:
    """Write the ONNX file of an estimator, and run it where onnxruntime is installed."""
    onnx = import_extra("onnx", "onnx")
    deployed = _Deployed(estimator).cpu().eval()
    rows = torch.randn(16, estimator.n_features_in_, generator=torch.Generator().manual_seed(0))
    rows = rows * deployed.scale + deployed.mean
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package calls itself the old one
        torch.onnx.export(
            deployed,
            (rows,),
            os.fspath(target),
            input_names=["features"],
            output_names=["probabilities"],
            dynamic_axes={"features": {0: "n_samples"}, "probabilities": {0: "n_samples"}},
            dynamo=False,
        )
    model = onnx.load(target)
    onnx.helper.set_model_props(model, {"classes": json.dumps(estimator.classes_.tolist())})
    onnx.checker.check_model(model)
    onnx.save(model, target)
    if find_spec("onnxruntime") is not None:
        _hold_against(deployed, rows, target)


@torch.no_grad()
def _hold_against(deployed: _Deployed, rows: Tensor, path: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for count in (len(rows), 1):
        (found,) = session.run(["probabilities"], {"features": rows[:count].numpy()})
        if not np.allclose(found, deployed(rows[:count]).numpy(), atol=1e-4):
            raise RuntimeError(f"'{path}' must say what the estimator says; onnxruntime finds otherwise.")
