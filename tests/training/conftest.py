import pytest
import torch


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """Four processes that train together."""
    if not torch.distributed.is_available():
        pytest.skip("torch is built without torch.distributed")
    from .ranks import Ranks

    started = Ranks(4, tmp_path_factory.mktemp("ranks"))
    yield started
    started.close()
