"""Ensembles as scikit-learn estimators, and how two of them are compared.

``__init__.pyi`` is the one list of names; each is imported on first use. Ensembles of networks need torch.
"""

from typing import Any

import lazy_loader

from counterpoint._extras import import_extra

_attached, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name.startswith("DiverseEnsemble"):
        import_extra("torch", "train")
    return _attached(name)
