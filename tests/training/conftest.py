import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Nets this small gain nothing from threads and lose much waiting for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
