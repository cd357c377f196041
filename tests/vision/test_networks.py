"""Networks have the right shape, take weights that fit and refuse others with the tensor that does not."""

import importlib.util
import re
import sys
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from counterpoint.training import Ensemble, can_stack
from counterpoint.vision import NETWORKS, backbone

OWN = ("convnet", "cifar_resnet18")
OTHERS = tuple(name for name in NETWORKS if name not in OWN)
needs_torchvision = pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed"
)
each_network = pytest.mark.parametrize(
    "name", [*OWN, *(pytest.param(name, marks=needs_torchvision) for name in OTHERS)]
)


def narrow(name):
    """Return options that make the network small where that can be."""
    return {"width": 4} if name in OWN else {}


def last_linear(net):
    return [part for part in net.modules() if isinstance(part, nn.Linear)][-1]


def body_of(net):
    head = {id(tensor) for tensor in last_linear(net).parameters()}
    return {name: value for name, value in net.state_dict(keep_vars=True).items() if id(value) not in head}


def save(net, path, *, dtype=torch.float32, drop=(), **extra):
    tensors = {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in net.state_dict().items()
        if not name.startswith(tuple(drop))
    }
    save_file({name: value.clone() for name, value in (tensors | extra).items()}, path)
    return path


@each_network
def test_a_network_puts_out_a_logit_for_each_class(name):
    net = backbone(name, 7, **narrow(name)).eval()
    with torch.no_grad():
        assert net(torch.zeros(2, 3, 64, 64)).shape == (2, 7)
    assert net(torch.zeros(1, 3, 32, 32)).dtype == torch.float32


@each_network
def test_weights_of_16_bits_fill_all_but_the_head(name, tmp_path):
    torch.manual_seed(0)
    saved = backbone(name, 1000, **narrow(name))
    with torch.no_grad():
        for buffer in saved.buffers():
            buffer.add_(1)
    save(saved, tmp_path / f"{name}.safetensors", dtype=torch.float16)
    for weights in (tmp_path, tmp_path / f"{name}.safetensors", str(tmp_path)):
        net = backbone(name, 5, weights=weights, **narrow(name))
    assert last_linear(net).out_features == 5
    found = body_of(net)
    assert found.keys() == body_of(saved).keys()
    for key, value in body_of(saved).items():
        assert found[key].dtype == value.dtype  # float32 again, and whole numbers whole
        if not key.endswith("num_batches_tracked"):
            assert torch.equal(found[key], value.half().float())


def test_the_convnet_has_six_convolutions_that_double_at_the_two_poolings():
    layers = [part for part in backbone("convnet", 10, width=8).modules() if not list(part.children())]
    assert [layer.out_channels for layer in layers if isinstance(layer, nn.Conv2d)] == [8, 8, 16, 16, 32, 32]
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers) == 2
    assert backbone("convnet", 10).features[0].out_channels == 32


def test_convnets_are_stacked():
    learners = [backbone("convnet", 3, width=4) for _ in range(3)]
    assert can_stack(learners)
    ensemble = Ensemble(learners).eval()
    x = torch.randn(5, 3, 32, 32)
    for learner, found in zip(learners, ensemble(x), strict=True):
        torch.testing.assert_close(found, learner.eval()(x), atol=1e-5, rtol=1e-4)


def test_the_cifar_resnet_has_the_size_of_the_published_one():
    # The literature gives 11.17 million for this form with ten classes.
    net = backbone("cifar_resnet18", 10)
    assert sum(parameter.numel() for parameter in net.parameters()) == 11_173_962
    assert net.layer1(net.conv1(torch.zeros(1, 3, 32, 32))).shape == (1, 64, 32, 32)  # no early pooling


@needs_torchvision
def test_the_cifar_resnet_computes_what_torchvisions_does_with_its_stem_replaced():
    from torchvision.models import resnet18

    reference = resnet18(num_classes=10)
    reference.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    reference.maxpool = nn.Identity()
    net = backbone("cifar_resnet18", 10)
    net.load_state_dict(reference.state_dict())
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(net.eval()(x), reference.eval()(x))


@needs_torchvision
def test_a_partial_backbone_loads_with_its_missing_parts_named(tmp_path):
    saved = backbone("shufflenet_v2_x1_0", 10)
    save(saved, tmp_path / "shufflenet_v2_x1_0_backbone.safetensors", drop=("conv5.", "fc."))
    with pytest.warns(
        UserWarning, match=r"'shufflenet_v2_x1_0' from '.*_backbone\.safetensors' have no part conv5,"
    ):
        net = backbone("shufflenet_v2_x1_0", 10, weights=tmp_path)
    assert torch.equal(net.stage4[0].branch1[0].weight, saved.stage4[0].branch1[0].weight)
    assert not torch.equal(net.conv5[0].weight, saved.conv5[0].weight)


@needs_torchvision
def test_the_auxiliary_heads_of_googlenet_are_left_out(tmp_path):
    from torchvision.models import googlenet

    saved = googlenet(aux_logits=True, init_weights=False)
    net = backbone("googlenet", 3, weights=save(saved, tmp_path / "net.safetensors"))
    assert net.aux1 is None
    assert net.transform_input  # as torchvision has it for its weights
    assert torch.equal(net.conv1.conv.weight, saved.conv1.conv.weight)
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 3)  # no tuple in training mode either


@needs_torchvision
def test_imagenet_weights_are_torchvisions_download_with_its_old_names(monkeypatch):
    from torchvision import models

    saved = models.densenet121(num_classes=1000)
    old = {
        re.sub(r"(denselayer\d+\.(?:norm|conv))([12])", r"\1.\2", k): v for k, v in saved.state_dict().items()
    }
    assert old.keys() != saved.state_dict().keys()
    asked = []

    def downloaded(self, **options):
        asked.append((self, options))
        return old

    monkeypatch.setattr(models.DenseNet121_Weights, "get_state_dict", downloaded)
    net = backbone("densenet121", 4, weights="imagenet")
    assert asked == [(models.DenseNet121_Weights.DEFAULT, {"check_hash": True})]
    assert net.classifier.out_features == 4
    for key, value in net.features.state_dict().items():
        assert torch.equal(value, saved.features.state_dict()[key])


@needs_torchvision
def test_a_failed_download_says_how_to_give_the_file(monkeypatch):
    from torchvision import models

    def fail(self, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(models.ResNet18_Weights, "get_state_dict", fail)
    message = (
        r"'resnet18' could not be downloaded \(no route to host\); pass .* holds 'resnet18\.safetensors'\.$"
    )
    with pytest.raises(ConnectionError, match=message):
        backbone("resnet18", 2, weights="imagenet")


def test_without_torchvision_the_error_has_the_pip_line_and_the_own_networks_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ImportError, match=r'pip install "counterpoint\[vision\]"'):
        backbone("resnet18", 2)
    for name in OWN:
        backbone(name, 2, width=2)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("resnet19", 2), {}, ValueError, r"`name` must be one of 'convnet', .*; got 'resnet19'\.$"),
        (("convnet", 0), {}, ValueError, r"`n_classes` must be at least 1; got 0\.$"),
        (("convnet", 2), {"width": 0}, ValueError, r"`width` must be at least 1; got 0\.$"),
        (("resnet18", 2), {"width": 8}, ValueError, r"`width` must be None for 'resnet18', .*; got 8\.$"),
        (("convnet", 2), {"weights": "imagenet"}, ValueError, r"`weights` must be a path for 'convnet'"),
        (
            ("convnet", 2),
            {"weights": 3},
            TypeError,
            r"`weights` must be None, 'imagenet' or the path .*; got int\.$",
        ),
        (("convnet", 2), {"weights": np.zeros(2)}, TypeError, r"`weights` must be .*; got ndarray\.$"),
        (("resnet18", 2), {"weights": np.zeros(2)}, TypeError, r"`weights` must be .*; got ndarray\.$"),
        (("convnet", 2), {"weights": {"a": 1}}, TypeError, r"`weights` must be .*; got dict\.$"),
        (("convnet", 2), {"weights": ""}, ValueError, r"`weights` must be .* the path .*; got ''\.$"),
        (("convnet", (2, 3)), {}, TypeError, r"`n_classes` must be an integer; got \(2, 3\)\.$"),
        (("convnet", True), {}, TypeError, r"`n_classes` must be an integer; got True\.$"),
        (("convnet", 2), {"width": [8]}, TypeError, r"`width` must be an integer; got \[8\]\.$"),
        (("convnet", 2), {"weights": "no/where"}, FileNotFoundError, r"that exists; got 'no/where'\.$"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        backbone(*arguments, **options)


def test_a_folder_without_the_network_is_refused(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"`weights` must be a folder that holds 'convnet\.safetensors'"
    ):
        backbone("convnet", 2, weights=tmp_path)


@pytest.mark.parametrize("content", [b"", b"a pickle, say" * 10], ids=["empty", "other"])
def test_a_file_of_another_format_is_refused(tmp_path, content):
    path = tmp_path / "convnet.safetensors"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"`weights` must be a safetensors file; got '.*convnet\.safetensors', and"
    ):
        backbone("convnet", 2, weights=path)


def test_a_truncated_file_is_refused(tmp_path):
    path = save(backbone("convnet", 2, width=2), tmp_path / "whole.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"`weights` must be a safetensors file; .* reading it failed"):
        backbone("convnet", 2, width=2, weights=path)


@pytest.mark.parametrize(
    ("saved", "options", "message"),
    [
        (
            lambda: backbone("convnet", 2, width=4),
            {},
            r"whose 'features\.0\.weight' has the shape \(4, 3, 3, 3\) in place of \(2, 3, 3, 3\)\.$",
        ),
        (
            lambda: backbone("cifar_resnet18", 2, width=2),
            {},
            r"which holds 'bn1\.bias', a tensor that it does not",
        ),
        (
            lambda: backbone("convnet", 2, width=2),
            {"drop": ["features.4.weight"]},
            r"which lacks 'features\.4\.weight'\.$",
        ),
        (
            lambda: backbone("convnet", 2, width=2),
            {"drop": ["features."]},
            r"which holds none of its tensors\.$",
        ),
        (
            lambda: backbone("convnet", 2, width=2),
            {"features.0.weight": torch.full((2, 3, 3, 3), torch.inf)},
            r"whose 'features\.0\.weight' is not finite throughout\.$",
        ),
        (
            lambda: backbone("convnet", 2, width=2),
            {"features.0.weight": torch.ones((2, 3, 3, 3), dtype=torch.int8)},
            r"whose 'features\.0\.weight' is of torch\.int8 in place of torch\.float32\.$",
        ),
        (
            lambda: backbone("convnet", 2, width=2),
            {"features.1.running_var": torch.tensor([1.0, -1.0])},
            r"whose 'features\.1\.running_var' is negative\.$",
        ),
    ],
    ids=["shape", "another network", "missing", "head alone", "infinite", "whole numbers", "variance"],
)
def test_weights_that_do_not_fit_are_refused_with_the_tensor(tmp_path, saved, options, message):
    path = save(saved(), tmp_path / "net.safetensors", **options)
    with pytest.raises(ValueError, match=r"^`weights` must be those of 'convnet'; got '.*', " + message):
        backbone("convnet", 2, width=2, weights=path)


@pytest.mark.parametrize("count", [torch.inf, torch.nan, 70_000.0, 3.0])
def test_counts_of_batches_are_left_out_in_whatever_form_16_bits_have_left_them(tmp_path, count):
    saved = backbone("convnet", 2, width=2)
    counts = {
        name: torch.tensor(count).half()
        for name in saved.state_dict()
        if name.endswith("num_batches_tracked")
    }
    path = save(saved, tmp_path / "net.safetensors", dtype=torch.float16, **counts)
    net = backbone("convnet", 2, width=2, weights=path)
    assert torch.equal(net.features[0].weight, saved.features[0].weight.half().float())
    for name in counts:
        assert net.state_dict()[name] == 0
    net(torch.rand(4, 3, 8, 8))
    assert all(value.isfinite().all() for value in net.state_dict().values())
    assert net.features[1].num_batches_tracked == 1


def test_files_may_leave_out_the_count_of_batches(tmp_path):
    saved = backbone("convnet", 2, width=2)
    counts = [name for name in saved.state_dict() if name.endswith("num_batches_tracked")]
    path = save(saved, tmp_path / "net.safetensors", drop=counts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = backbone("convnet", 2, width=2, weights=path)
    assert torch.equal(net.features[0].weight, saved.features[0].weight)
