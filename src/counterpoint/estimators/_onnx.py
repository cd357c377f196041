"""A fitted ensemble as one ONNX file, from the features to the vote."""

import copy
import io
import json
import os
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from counterpoint._extras import import_extra
from counterpoint._files import replacing
from counterpoint._validation import FloatArray, check_path

if TYPE_CHECKING:
    from counterpoint.estimators.diverse import DiverseEnsembleClassifier

__all__ = ["export"]

_N_ROWS = 64
# How much the probability of a class may change on average where features are rounded to float32.
_ROUNDING = 0.01


class _Deployed(nn.Module):
    """Standardise, run the networks, read them out, vote."""

    mean: Tensor
    scale: Tensor

    def __init__(self, estimator: "DiverseEnsembleClassifier") -> None:
        super().__init__()
        scaler, n_features = estimator.scaler_, estimator.n_features_in_
        mean = np.zeros(n_features) if scaler is None else scaler.mean_
        scale = np.ones(n_features) if scaler is None else scaler.scale_
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float64))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float64))
        self.learners = nn.ModuleList(copy.deepcopy(estimator.ensemble_.learners))  # to be moved to the CPU
        self.rule = estimator._rule()
        self.readout = self.rule.readout  # a part of this module, so that it is exported

    def forward(self, features: Tensor) -> Tensor:
        # as the estimator does: the mean may be large beside the scale, and then float32 keeps little of the difference
        x = ((features.double() - self.mean) / self.scale).float()
        return self.rule(torch.stack([learner(x) for learner in self.learners]))


def export(estimator: "DiverseEnsembleClassifier", path: str | os.PathLike[str]) -> None:
    """Write the ONNX file of an estimator, after a run of it where onnxruntime is installed."""
    target = check_path(path, "path")
    onnx = import_extra("onnx", "onnx")
    deployed = _Deployed(estimator).cpu().eval()
    rows = _rows(estimator, deployed)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The exporter that needs no further package warns that it is the old one, of constants that it does not fold,
        # and of data-dependent code of the library. Its warnings about the networks are for the user.
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        warnings.filterwarnings("ignore", "Constant folding", UserWarning)
        warnings.filterwarnings("ignore", module=r"counterpoint\.")
        torch.onnx.export(
            deployed,
            (rows,),
            buffer,  # type: ignore[arg-type]
            input_names=["features"],
            output_names=["probabilities"],
            dynamic_axes={"features": {0: "n_samples"}, "probabilities": {0: "n_samples"}},
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    onnx.helper.set_model_props(model, {"classes": json.dumps(estimator.classes_.tolist())})
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    if find_spec("onnxruntime") is not None:
        _compare(estimator, rows, content, path)
    with replacing(target) as file:
        file.write(content)


def _rows(estimator: "DiverseEnsembleClassifier", deployed: _Deployed) -> Tensor:
    """Return rows of the mean and the spread of the training rows, in float32, if that can hold them."""
    drawn = torch.randn(_N_ROWS, estimator.n_features_in_, generator=torch.Generator().manual_seed(0))
    rows = drawn * deployed.scale + deployed.mean
    change = _proba(estimator, rows) - _proba(estimator, rows.float())
    if np.abs(change).max(axis=1).mean() > _ROUNDING:
        share = (rows - rows.float()).abs().amax(0) / deployed.scale
        worst = int(share.argmax())
        name = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))[worst]
        raise ValueError(
            f"`X` must have held features that float32, the input of the file, can tell apart; got feature {name!r} "
            f"with mean {deployed.mean[worst]:.6g} and standard deviation {deployed.scale[worst]:.6g}. Subtract a "
            "constant from it before fit and before the file is used."
        )
    return rows.float()


def _compare(
    estimator: "DiverseEnsembleClassifier", rows: Tensor, content: bytes, path: str | os.PathLike[str]
) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for count in (16, 1):
        (found,) = session.run(["probabilities"], {"features": rows[:count].numpy()})
        if not np.allclose(found, _proba(estimator, rows[:count]), atol=1e-4):
            raise RuntimeError(
                f"'{os.fspath(path)}' must agree with the estimator; onnxruntime finds other probabilities. The file "
                "was not written."
            )


def _proba(estimator: "DiverseEnsembleClassifier", rows: Tensor) -> FloatArray:
    """Return the vote of the estimator, without the warning that the rows have no feature names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return estimator._vote(rows.double().numpy())
