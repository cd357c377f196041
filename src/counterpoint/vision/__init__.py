"""Images: networks with pretrained weights, batches that are augmented on the device, and predictions."""

from counterpoint._extras import import_extra

import_extra("torch", "vision")

from counterpoint.vision.batches import ImageBatches  # noqa: E402 - a missing torch is one sentence
from counterpoint.vision.networks import NETWORKS, backbone  # noqa: E402
from counterpoint.vision.prediction import predict_logits, predict_proba  # noqa: E402

__all__ = ["NETWORKS", "ImageBatches", "backbone", "predict_logits", "predict_proba"]
