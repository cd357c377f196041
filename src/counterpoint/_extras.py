"""Optional packages, and the pip line for those that are missing."""

from importlib import import_module
from types import ModuleType


def import_extra(module: str, extra: str) -> ModuleType:
    """Return ``module``, or say which extra of counterpoint brings it, or that it does not load."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, but something of its own is missing
            raise
        raise ImportError(
            f'`{package}` is needed here; install it with: pip install "counterpoint[{extra}]".'
        ) from error
    except RuntimeError as error:  # as torchvision beside another torch than it was built for
        raise ImportError(
            f"`{package}` is installed but cannot be imported ({error}); it and torch must be builds that belong "
            f"together: install both again, for the same device and from the same index."
        ) from error
