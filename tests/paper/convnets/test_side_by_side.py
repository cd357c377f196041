"""ConvNets side by side do what each does alone."""

import pytest
import torch

from counterpoint.training import IndependentLoss
from counterpoint.vision import backbone
from paper.convnets.side_by_side import Apart, Chunks, SideBySide, program


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    made = [backbone("convnet", 10, width=2) for _ in range(6)]
    for parameter in (p for net in made for p in net.parameters()):
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return made


@pytest.mark.parametrize("n_views", [1, 3, 6])
@pytest.mark.parametrize("channels", [1, 4, 32])
def test_nets_side_by_side_do_what_each_does_alone(nets, n_views, channels):
    torch.manual_seed(1)
    views = torch.randn(n_views, 4, 3, 8, 8)
    together, apart = SideBySide(nets, n_views, channels), Apart(nets, n_views)
    found, expected = together(views), apart(views)
    torch.testing.assert_close(found, expected)
    target = torch.randint(10, (4,))
    for logits in (found, expected):
        IndependentLoss()(logits, target).backward()
    first, last = together.layers[0].weight.grad, together.layers[-1].weight.grad
    torch.testing.assert_close(first, torch.cat([net.features[0].weight.grad for net in apart.nets]))
    torch.testing.assert_close(last, torch.stack([net.head.weight.grad.mT for net in apart.nets]))
    torch.testing.assert_close(together.eval()(views), apart.eval()(views))  # with running statistics


def test_several_narrow_nets_share_a_group_of_the_convolution(nets):
    groups = [layer.groups for layer in SideBySide(nets, channels=8).layers if hasattr(layer, "groups")]
    assert groups == [1, 2, 2, 3, 3, 6]  # of 2, 2, 2, 4, 4 and 8 channels a net


@pytest.mark.parametrize(("n_views", "size", "n_parts"), [(1, 4, 2), (3, 4, 3), (6, 4, 2), (6, 1, 6)])
def test_chunks_of_nets_do_what_each_does_alone(nets, n_views, size, n_parts):
    torch.manual_seed(1)
    views = torch.randn(n_views, 4, 3, 8, 8)
    chunks = Chunks(nets, n_views, size)
    assert len(chunks.parts) == n_parts  # of equal size, within a view or each with views of its own
    assert all(
        layer.groups == 1 for part in chunks.parts for layer in part.layers if hasattr(layer, "groups")
    )
    torch.testing.assert_close(chunks(views), Apart(nets, n_views)(views))


def test_wide_nets_run_one_after_the_other():
    assert isinstance(program([backbone("convnet", 2, width=64)]), Chunks)
    assert isinstance(program([backbone("convnet", 2, width=4)]), SideBySide)


def test_layers_that_cannot_stand_side_by_side_are_refused():
    with pytest.raises(
        TypeError, match="`nets` must be of layers that can stand side by side; got LayerNorm"
    ):
        SideBySide([torch.nn.Sequential(torch.nn.LayerNorm(3)) for _ in range(2)])
