"""Weights spread over the processes of the data axis, by FSDP2 (``torch.distributed.fsdp.fully_shard``).

Each process keeps its part of every tensor, as a ``DTensor``, and gathers the rest of a module while that runs. The
gradients are averaged over the axis, as ``DistributedDataParallel`` averages them.
"""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from counterpoint.training.mesh import Axes

__all__ = ["as_sharded", "as_whole", "local_part", "shard", "sharded_axes", "unsharded_name"]


def shard(module: nn.Module, axes: Axes) -> nn.Module:
    """Return a module, changed in place, whose weights are spread over the data axis.

    Parameters
    ----------
    module : Module
        An ensemble, or any module. Learners that are not stacked are gathered one by one.
    axes : Axes
        The mesh; nothing changes without a data axis.
    """
    if axes.data is None:
        return module
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise ImportError("`shard` needs torch 2.6 or later: pip install 'torch>=2.6'") from None
    from torch.distributed.device_mesh import DeviceMesh

    mesh = DeviceMesh.from_group(axes.data, next(module.parameters()).device.type)
    body = getattr(module, "body", None)
    for part in (*(body if isinstance(body, nn.ModuleList) else ()), module):
        if any(True for _ in part.parameters()):
            part.register_forward_hook(_no_view)  # before the hooks of torch, which warn of views
            fully_shard(part, mesh=mesh, reshard_after_forward=True)
    return module


def sharded_axes(module: nn.Module) -> Axes | None:
    """Return the data axis over which the weights of a module are spread, or None if they are not.

    Parameters
    ----------
    module : Module
        Any module.
    """
    if not dist.is_available() or not dist.is_initialized():
        return None
    from torch.distributed import fsdp

    if any(isinstance(part, fsdp.FullyShardedDataParallel) for part in module.modules()):
        raise TypeError(
            "`ensemble` must not be inside FullyShardedDataParallel, whose weights cannot be read; use "
            "`parallelize(ensemble, mesh, shard=True)`."
        )
    kind = getattr(fsdp, "FSDPModule", ())
    for part in module.modules():
        if isinstance(part, kind):
            part.reshard()  # it may be gathered since its last pass
    meshes = {p.device_mesh for p in module.parameters() if _is_sharded(p)}  # type: ignore[attr-defined]
    if not meshes:
        return None
    mesh = meshes.pop()
    if meshes or mesh.ndim != 1:
        raise ValueError(
            "`ensemble` must be sharded over one mesh with one dimension, that of the data; got "
            f"{f'{mesh.ndim} dimensions' if mesh.ndim != 1 else 'several meshes'}."
        )
    return Axes(mesh.get_group())


def as_whole(value: Any) -> Any:
    """Return a tensor whose parts are on several processes as a whole; all of them must call it."""
    return value.full_tensor() if _is_sharded(value) else value


def as_sharded(value: Any, like: Any) -> Any:
    """Return a whole tensor as the part of this process, if another one of its shape is such a part."""
    if (
        not _is_sharded(like)
        or _is_sharded(value)
        or not isinstance(value, Tensor)
        or value.shape != like.shape
    ):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)


def local_part(value: Tensor) -> Tensor:
    """Return the part of a tensor that is on this process."""
    return value.to_local() if _is_sharded(value) else value  # type: ignore[attr-defined]


def unsharded_name(module: nn.Module) -> str:
    """Return the name of the kind of a module, which sharding changes."""
    name = type(module).__name__
    return (
        type(module).__mro__[2].__name__ if name.startswith("FSDP") and hasattr(module, "unshard") else name
    )


def _is_sharded(value: Any) -> bool:
    return hasattr(value, "full_tensor")  # as a DTensor has, without its import


def _no_view(_module: nn.Module, _inputs: Any, outputs: Any) -> Any:
    """Return outputs that are no view of another tensor: FSDP gathers the weights by a hook, which a view may lose."""
    return outputs.clone() if isinstance(outputs, Tensor) and outputs._is_view() else outputs
