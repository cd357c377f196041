"""The device that training and prediction run on."""

import torch

__all__ = ["pick_device"]


def pick_device(device: str | torch.device) -> torch.device:
    """Return the device of a name; "auto" is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"`device` must be 'auto' or a device of torch; got {device!r}.") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"`device` must be one that torch finds, and it finds {torch.cuda.device_count()} GPUs; "
            f"got {str(device)!r}."
        )
    return found
