"""A fitted ensemble as one ONNX file, from the features to the vote."""

import copy
import io
import json
import os
import warnings
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor, nn

from counterpoint._extras import import_extra
from counterpoint._files import replacing
from counterpoint._validation import FloatArray, check_flag, check_path
from counterpoint.estimators._network_estimator import NetworkEstimator
from counterpoint.estimators.table_encoder import TableEncoder

__all__ = ["export"]

_N_ROWS = 64
# How much the probability of a class, or a scaled target, may change on average where features are rounded to float32.
_ROUNDING = 0.01


class _Encoding(nn.Module):
    """Encode a table of numbers, with missing values or without, as the encoder of the estimator does."""

    means: Tensor
    is_empty: Tensor
    mean: Tensor
    scale: Tensor
    missing: Tensor
    column: Tensor
    left: Tensor
    width: Tensor

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        scaler, n_features = encoder.scaler_, encoder.n_features_in_
        mean = np.zeros(n_features) if scaler is None else scaler.mean_
        scale = np.ones(n_features) if scaler is None else scaler.scale_
        self.register_buffer("means", torch.as_tensor(np.nan_to_num(encoder._means)))
        self.register_buffer("is_empty", torch.as_tensor(np.isnan(encoder._means)))
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("scale", torch.as_tensor(scale))
        self.register_buffer("missing", torch.as_tensor(encoder.missing_features_))
        counts = [len(knots) - 1 for knots in encoder._knots]
        self.register_buffer("column", torch.arange(n_features).repeat_interleave(torch.tensor(counts)))
        left = np.concatenate([knots[:-1] for knots in encoder._knots])
        width = np.concatenate([np.diff(knots) for knots in encoder._knots])
        self.register_buffer("left", torch.as_tensor(left))
        self.register_buffer("width", torch.as_tensor(width))

    def forward(self, features: Tensor) -> Tensor:
        is_missing = torch.isnan(features)
        # as the estimator does: the mean may be large beside the scale, and then float32 keeps little of the difference
        filled = torch.where(is_missing | self.is_empty, self.means, features.double())
        parts = [((filled - self.mean) / self.scale).float()]
        if len(self.column):
            parts.append(((filled[:, self.column] - self.left) / self.width).clamp(0, 1).float())
        if len(self.missing):
            parts.append(is_missing[:, self.missing].float())
        return torch.cat(parts, dim=1)


class _Deployed(nn.Module):
    """Encode, run the networks, read them out, vote."""

    def __init__(self, estimator: NetworkEstimator, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding
        self.learners = nn.ModuleList(copy.deepcopy(estimator.ensemble_.learners))  # to be moved to the CPU
        self.rule = estimator._rule()
        self.readout = self.rule.readout  # a part of this module, so that it is exported
        self.target = _target(estimator)

    def forward(self, features: Tensor) -> Tensor:
        x = self.encoding(features)
        found = self.rule(torch.stack([learner(x) for learner in self.learners]))
        if self.target is None:
            return found
        mean, scale = self.target
        return (found[:, 0].double() * scale + mean).float()


def export(estimator: NetworkEstimator, path: str | os.PathLike[str], *, encoded: bool = False) -> None:
    """Write the ONNX file of an estimator, after a run of it where onnxruntime is installed."""
    target = check_path(path, "path")
    check_flag(encoded, "encoded")
    onnx = import_extra("onnx", "onnx")
    encoder = estimator.encoder_
    if encoded:
        encoding: nn.Module = nn.Identity()
        rows = torch.randn(_N_ROWS, encoder._n_out, generator=torch.Generator().manual_seed(0))
    else:
        _check_numeric(encoder)
        encoding = _Encoding(encoder)
        rows = _rows(estimator, encoding)
    deployed = _Deployed(estimator, encoding).cpu().eval()
    buffer, output = io.BytesIO(), estimator._onnx_output
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
            output_names=[output],
            dynamic_axes={"features": {0: "n_samples"}, output: {0: "n_samples"}},
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    if hasattr(estimator, "classes_"):
        onnx.helper.set_model_props(model, {"classes": json.dumps(estimator.classes_.tolist())})
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    if find_spec("onnxruntime") is not None:
        _compare(estimator, _proba(estimator, rows, encoded), rows, content, path)
    with replacing(target) as file:
        file.write(content)


def _check_numeric(encoder: TableEncoder) -> None:
    if encoder.is_categorical_.any():
        place = int(encoder.is_categorical_.argmax())
        name = getattr(encoder, "feature_names_in_", range(encoder.n_features_in_))[place]
        raise ValueError(
            f"`encoded` must be True for a table with nominal columns, of which {name!r} is one; got False. The file "
            "then takes what `encoder_.transform` returns."
        )


def _rows(estimator: NetworkEstimator, encoding: _Encoding) -> Tensor:
    """Return rows of the mean and the spread of the training rows, in float32, if that can hold them."""
    drawn = torch.randn(_N_ROWS, estimator.n_features_in_, generator=torch.Generator().manual_seed(0))
    rows = drawn * encoding.scale + encoding.mean
    change = _proba(estimator, rows) - _proba(estimator, rows.float())
    if np.abs(change).max(axis=1).mean() > _ROUNDING:
        share = (rows - rows.float()).abs().amax(0) / encoding.scale
        worst = int(share.argmax())
        name = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))[worst]
        raise ValueError(
            f"`X` must have held features that float32, the input of the file, can tell apart; got feature {name!r} "
            f"with mean {encoding.mean[worst]:.6g} and standard deviation {encoding.scale[worst]:.6g}. Subtract a "
            "constant from it before fit and before the file is used."
        )
    rows = rows.float()
    rows[1::2, encoding.missing] = torch.nan
    return rows


def _compare(
    estimator: NetworkEstimator, vote: FloatArray, rows: Tensor, content: bytes, path: str | os.PathLike[str]
) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    output, target, near = estimator._onnx_output, _target(estimator), 1e-4
    for count in (16, 1):
        (found,) = session.run([output], {"features": rows[:count].numpy()})
        if target is not None:  # compared in units of the scaled targets, which float32 may round
            mean, scale = target
            found, near = (found[:, None] - mean) / scale, 1e-4 + 1e-6 * abs(mean) / scale
        if not np.allclose(found, vote[:count], atol=near):
            raise RuntimeError(
                f"'{os.fspath(path)}' must agree with the estimator; onnxruntime finds other {output}. The file "
                "was not written."
            )


def _target(estimator: NetworkEstimator) -> tuple[float, float] | None:
    """Return the mean and the scale of the targets of a regressor."""
    scaler = getattr(estimator, "target_scaler_", None)
    return None if scaler is None else (float(scaler.mean_[0]), float(scaler.scale_[0]))


def _proba(estimator: NetworkEstimator, rows: Tensor, encoded: bool = False) -> FloatArray:
    """Return the vote of the estimator, without the warning that the rows have no feature names."""
    if encoded:
        x = rows.to(next(estimator.ensemble_.parameters()).device)
        return estimator._rule()(estimator._raw_logits(x).cpu().double()).numpy()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return estimator._vote(rows.double().numpy())
