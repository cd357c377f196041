"""A device is one that is there."""

import pytest
import torch

from counterpoint.training import pick_device


@pytest.mark.parametrize("name", ["cpu", "cpu:0", torch.device("cpu")])
def test_a_device_that_is_there_is_taken(name):
    assert pick_device(name).type == "cpu"


def test_auto_is_the_gpu_where_there_is_one(monkeypatch):
    for there, kind in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert pick_device("auto") == torch.device(kind)


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_a_kind_of_gpu_is_taken_where_torch_finds_it(kind, monkeypatch):
    module = torch.get_device_module(kind)
    monkeypatch.setattr(module, "device_count", lambda: 1)
    assert pick_device(kind) == torch.device(kind)
    assert pick_device(torch.device(kind, 0)) == torch.device(kind, 0)
    with pytest.raises(ValueError, match=rf"it finds 1 of the kind '{kind}'; got '{kind}:1'\.$"):
        pick_device(f"{kind}:1")
    monkeypatch.setattr(module, "device_count", lambda: 0)
    for given in (kind, f"{kind}:0", torch.device(kind)):
        with pytest.raises(ValueError, match=rf"it finds 0 of the kind '{kind}'; got '{given}'\.$"):
            pick_device(given)


@pytest.mark.parametrize("kind", ["meta", "cpu:1"])
def test_a_device_on_which_nothing_runs_is_refused(kind):
    with pytest.raises(ValueError, match=rf"^`device` must be one that torch finds, and .*; got '{kind}'\.$"):
        pick_device(kind)


@pytest.mark.parametrize("given", ["", "gpu", None, True, 1.5, -1, 10**30, [], ("cpu",)])
def test_what_is_no_device_is_refused(given):
    with pytest.raises(ValueError, match=r"^`device` must be 'auto' or a device of torch; got .*\.$"):
        pick_device(given)
