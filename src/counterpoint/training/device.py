"""The device that training and prediction run on."""

import torch

__all__ = ["pick_device"]


def pick_device(device: str | torch.device) -> torch.device:
    """Return the device of a name; "auto" is the GPU where there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"`device` must be 'auto' or a device of torch; got {device!r}.") from None
    try:
        count = torch.get_device_module(found).device_count()
    except RuntimeError:  # nothing runs on it, as on "meta", or what drives it is not there
        count = 0
    if (found.index or 0) >= count:
        raise ValueError(
            f"`device` must be one that torch finds, and it finds {count} of the kind {found.type!r}; "
            f"got {str(device)!r}."
        )
    return found
