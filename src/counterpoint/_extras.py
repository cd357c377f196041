"""Import of optional packages, with the pip command if one is missing."""

from importlib import import_module
from types import ModuleType


def import_extra(module: str, extra: str) -> ModuleType:
    """Import ``module``; if it is missing or broken, raise ImportError with the pip command."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is installed, but one of its own dependencies is not
            raise
        raise ImportError(
            f'`{package}` is needed here; install it with: pip install "counterpoint[{extra}]".'
        ) from error
    except RuntimeError as error:  # torchvision raises it if it was built for another torch
        raise ImportError(
            f"`{package}` is installed but cannot be imported ({error}); it and torch must be builds that belong "
            f"together: install both again, for the same device and from the same index."
        ) from error
