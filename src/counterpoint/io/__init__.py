"""Readers of files: the predictions of an ensemble, and tables to train on.

:data:`TABLE_FORMATS` and :data:`ARRAY_FORMATS` say which suffix is read by which module. ``__init__.pyi`` is the one
list of the names here; each is imported on first use, so the command line can show the formats without NumPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
