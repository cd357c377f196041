"""Ensembles that are accurate and diverse.

The names most users need are here, and every subpackage is an attribute. ``__init__.pyi`` is the one list of them.
Each is imported on first use, so ``import counterpoint`` is instant and needs no optional package.
"""

import logging

import lazy_loader

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
