"""The device of a study."""

import pytest
import torch
from torch import nn

from paper.device import device_name, kernel_search, to_device


def test_the_search_for_kernels_is_restored():
    before = torch.backends.cudnn.benchmark
    with kernel_search():
        assert torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark is before


def test_a_cpu_is_named_with_its_threads():
    count = torch.get_num_threads()
    ending = " CPU, 1 thread" if count == 1 else f" CPU, {count} threads"
    assert device_name(torch.device("cpu")).endswith(ending)


def test_weights_keep_their_layout_on_the_cpu():
    """In the channels-last layout oneDNN corrupts memory on processors without AVX-512."""
    net = nn.Sequential(nn.Conv2d(4, 8, 3), nn.Conv2d(8, 8, 1, stride=2))
    moved = to_device(net, torch.device("cpu"))
    assert all(parameter.is_contiguous() for parameter in moved.parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_weights_have_the_channels_last_on_cuda():
    moved = to_device(nn.Conv2d(4, 8, 3), torch.device("cuda"))
    assert moved.weight.is_contiguous(memory_format=torch.channels_last)
