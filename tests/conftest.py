"""What all tests share."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Timing is the business of benchmarks: a busy machine must not fail a theorem.
settings.register_profile("counterpoint", deadline=None)
settings.load_profile("counterpoint")

try:
    import torch
except ImportError:
    pass
else:
    # Threads gain nothing on nets this small, and on a busy machine they wait for each other.
    torch.set_num_threads(1)

    # Where torchvision's compiled operations do not load beside this torch, it asks for two of them by name as it is
    # imported, and uses neither in its networks: names are enough.
    try:
        import torchvision  # noqa: F401
    except ImportError:
        pass
    except RuntimeError:
        for _module in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[_module]
        _OPERATIONS = torch.library.Library("torchvision", "DEF")  # they last as long as this object
        for _name in ("nms", "qnms"):
            _OPERATIONS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@pytest.fixture(scope="session")
def load_benchmark():
    """Return what gives the module of a script in ``benchmarks/``."""

    def load(name):
        path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
