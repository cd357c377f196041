"""The device of an experiment."""

import torch

from counterpoint.experiments._device import device_name, kernel_search


def test_the_search_for_kernels_is_left_as_it_was():
    before = torch.backends.cudnn.benchmark
    with kernel_search():
        assert torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark is before


def test_a_cpu_is_named_with_its_threads():
    count = torch.get_num_threads()
    ending = " CPU, 1 thread" if count == 1 else f" CPU, {count} threads"
    assert device_name(torch.device("cpu")).endswith(ending)
