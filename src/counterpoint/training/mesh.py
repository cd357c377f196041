"""The two axes of a mesh of processes: samples spread over one, learners over the other.

Along ``"data"`` each process has other samples of a batch and the same learners. Along ``"learners"`` it has other
learners and the same samples. Losses are those of the whole batch and of all learners, one number on every process.
Gradients are scaled for a mean over the data axis, which ``DistributedDataParallel`` takes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["LOCAL", "Axes", "as_axes", "check_said"]

T = TypeVar("T")
_NAMES = ("learners", "data")
_ONCE = "a loss on a mesh can be differentiated only once; got `create_graph`."


class Axes:
    """The process groups of a mesh, and the few sums over them that training needs.

    Parameters
    ----------
    data, learners : ProcessGroup, optional
        The processes with other samples, and those with other learners; None for an axis of length one.

    Examples
    --------
    >>> axes = Axes()
    >>> bool(axes), axes.is_main, axes.same("decision")
    (False, True, 'decision')
    """

    def __init__(self, data: "ProcessGroup | None" = None, learners: "ProcessGroup | None" = None) -> None:
        self.data = data if data is not None and data.size() > 1 else None
        self.learners = learners if learners is not None and learners.size() > 1 else None
        self.idle = False  # the samples at hand stand in for none: fit has more processes than samples
        self._learners_of: dict[int, list[int]] = {}

    def __bool__(self) -> bool:
        return self.data is not None or self.learners is not None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Axes":
        return self  # process groups cannot be copied

    @property
    def n_data(self) -> int:
        """Number of processes along the data axis."""
        return 1 if self.data is None else self.data.size()

    @property
    def data_rank(self) -> int:
        """Place of this process along the data axis."""
        return 0 if self.data is None else self.data.rank()

    @property
    def n_learner_ranks(self) -> int:
        """Number of processes along the learner axis."""
        return 1 if self.learners is None else self.learners.size()

    @property
    def learner_rank(self) -> int:
        """Place of this process along the learner axis."""
        return 0 if self.learners is None else self.learners.rank()

    @property
    def is_main(self) -> bool:
        """Whether this process decides and writes for all."""
        return self.data_rank == 0 and self.learner_rank == 0

    def n_learners(self, own: int) -> int:
        """Return the number of learners on all processes, given that of this one."""
        return sum(self._sizes(own))

    def _sizes(self, own: int) -> list[int]:
        """Return the numbers of learners of all processes, given that of this one."""
        if self.learners is None:
            return [own]
        if own not in self._learners_of:  # the learners stay where they are: ask once
            self._learners_of[own] = self.each(own, self.learners)
        return self._learners_of[own]

    def sum_learners(self, outputs: Tensor) -> Tensor:
        """Return the sum of tensors over the learner axis; differentiable."""
        return outputs if self.learners is None else _Sum.apply(outputs, self.learners)  # type: ignore[no-untyped-call]

    def mean_of_learners(self, outputs: Tensor) -> Tensor:
        """Return the mean of outputs (..., n_learners, n_classes, batch) over all learners, with their axis kept."""
        if self.learners is None:
            return outputs.mean(-3, keepdim=True)
        return self.sum_learners(outputs.sum(-3, keepdim=True)) / self.n_learners(outputs.shape[-3])

    def logsumexp_of_learners(self, outputs: Tensor) -> Tensor:
        """Return the logarithm of the sum of exponentials over all learners, with their axis kept."""
        own = outputs.logsumexp(-3, keepdim=True)
        if self.learners is None:
            return own
        top = own.detach().clone()
        dist.all_reduce(top, dist.ReduceOp.MAX, group=self.learners)
        top.nan_to_num_(neginf=0.0)
        return self.sum_learners((own - top).exp()).log() + top

    def mean_of_data(self, value: Tensor, batch: int, sample_weight: Tensor | None) -> Tensor:
        """Return the mean over all samples, given that over the samples of this process; differentiable."""
        if self.data is None:
            return value
        weight = value.new_tensor(batch) if sample_weight is None else sample_weight.detach()
        weight = weight.double() if sample_weight is None else weight.double().sum(-1)
        return _Mean.apply(value, weight.expand(value.shape), self.data)  # type: ignore[no-any-return, no-untyped-call]

    def sum_data(self, tensor: Tensor) -> Tensor:
        """Return the sum of tensors over the data axis, without gradients."""
        if self.data is not None:
            tensor = tensor.detach().clone()
            dist.all_reduce(tensor, group=self.data)
        return tensor

    def gather(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the batch of all processes with the outputs of all learners; gradients flow to this process's part.

        Processes may have batches of other sizes; that of an idle one is left out.
        """
        logits = self.gather_learners(logits)
        if self.data is None:
            return logits, target, sample_weight
        own = 0 if self.idle else len(target)
        fact = torch.tensor([own, own > 0 and sample_weight is not None], device=logits.device)
        facts = [torch.empty_like(fact) for _ in range(self.n_data)]
        dist.all_gather(facts, fact, group=self.data)
        sizes, weighted = torch.stack(facts).T.tolist()
        logits, target = (
            _gather(logits[:, :own], 1, sizes, self.data),
            _gather(target[:own], 0, sizes, self.data),
        )
        if not any(weighted):
            return logits, target, None
        weight = logits.new_ones(own) if sample_weight is None else sample_weight
        return logits, target, _gather(weight[:own].to(logits.dtype), 0, sizes, self.data)

    def gather_learners(self, logits: Tensor) -> Tensor:
        """Return the outputs (n_learners, ...) of all learners, for the samples of this process."""
        if self.learners is None:
            return logits
        return _gather(logits, 0, self._sizes(len(logits)), self.learners)

    def split(self, tensor: Tensor) -> Tensor:
        """Return this process's rows of a tensor that is the same on all, along the data axis."""
        return tensor if self.data is None else tensor.tensor_split(self.n_data)[self.data_rank]

    def split_learners(self, parts: list[T]) -> list[T]:
        """Return this process's entries of a list with one for each learner."""
        rank, n = self.learner_rank, self.n_learner_ranks
        small, more = divmod(len(parts), n)
        start = rank * small + min(rank, more)
        return parts[start : start + small + (rank < more)]

    def each(self, value: T, group: "ProcessGroup | None") -> list[T]:
        """Return the values of all processes of a group."""
        if group is None:
            return [value]
        found: list[Any] = [None] * group.size()
        dist.all_gather_object(found, value, group=group)
        return found

    def every(self, value: T) -> list[list[T]]:
        """Return the values of all processes, by their places along the learner and the data axis."""
        return self.each(self.each(value, self.data), self.learners)

    def own_of(self, every: list[list[T]] | None) -> T | None:
        """Return the value of this process, of those of a mesh of these sizes; None if the sizes are others."""
        sizes = None if every is None else [len(row) for row in every]
        if every is None or sizes != [self.n_data] * self.n_learner_ranks:
            return None
        return every[self.learner_rank][self.data_rank]

    def same(self, value: T) -> T:
        """Return the value that the main process has."""
        for group in (self.learners, self.data):
            if group is not None:
                box = [value]
                dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0), group=group)
                value = box[0]
        return value

    def once(self, function: Callable[[], T]) -> T:
        """Call a function on the main process; return its result, or raise its error, on all."""
        result, error = None, None
        if self.is_main:
            try:
                result = function()
            except Exception as raised:
                error = raised
        result, error = self.same((result, error)) if self else (result, error)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def any(self, flag: bool) -> bool:
        """Return True if the flag is set on some process."""
        for group in (self.learners, self.data):
            flag = any(self.each(flag, group))
        return flag


LOCAL = Axes()


def as_axes(mesh: Any) -> Axes:
    """Return the axes of a mesh.

    Parameters
    ----------
    mesh : DeviceMesh, ProcessGroup or "local"
        A mesh with the dimensions ``"learners"`` and ``"data"``, or one of them; a process group is a data axis.
        ``"local"`` is this process alone.

    Examples
    --------
    >>> bool(as_axes("local"))
    False
    """
    if isinstance(mesh, Axes):
        return mesh
    if isinstance(mesh, str) and mesh == "local":
        return LOCAL
    if dist.is_available():
        from torch.distributed.device_mesh import DeviceMesh

        if isinstance(mesh, DeviceMesh):
            return _of_mesh(mesh)
        if isinstance(mesh, dist.ProcessGroup):
            return Axes(mesh)
    raise TypeError(f"`mesh` must be a DeviceMesh, a ProcessGroup or 'local'; got {mesh!r}.")


def _of_mesh(mesh: "DeviceMesh") -> Axes:
    names = mesh.mesh_dim_names or (("data",) if mesh.ndim == 1 else ())
    if len(names) != mesh.ndim or not set(names) <= set(_NAMES):
        raise ValueError(
            f"`mesh` must have the dimensions 'learners' and 'data', or one of them; got {mesh.mesh_dim_names}."
        )
    groups = {name: mesh.get_group(i) for i, name in enumerate(names)}
    return Axes(groups.get("data"), groups.get("learners"))


def check_said(logits: Tensor) -> None:
    """Refuse to train among several processes by a loss that was not told of them.

    The mean of the processes' losses is the loss of the whole batch only for some losses and equal batches.
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return
    if isinstance(logits, Tensor) and logits.requires_grad:
        raise ValueError(
            f"`mesh` must be given to a loss among {dist.get_world_size()} processes; got None. Pass the DeviceMesh or "
            "the process group whose gradients are averaged, or mesh='local' if this process trains by itself."
        )


class _Sum(torch.autograd.Function):
    """The sum over a group. What follows is the same on all its processes, so each takes its gradient as its own."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: "ProcessGroup") -> Tensor:
        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        _refuse_graph()
        return grad, None


class _Mean(torch.autograd.Function):
    """The mean over all samples; its gradient is times the number of processes, since theirs are averaged."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, weight: Tensor, group: "ProcessGroup") -> Tensor:
        both = torch.stack([value.double() * weight, weight])
        dist.all_reduce(both, group=group)
        total = both[1].clamp(min=torch.finfo(torch.float64).tiny)
        ctx.factor = (group.size() * weight / total).to(value)
        return (both[0] / total).to(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        _refuse_graph()
        return grad * ctx.factor, None, None


class _Gather(torch.autograd.Function):
    """Tensors of equal shape, side by side; the gradient of what all processes compute alike is that of its part."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: "ProcessGroup") -> Tensor:
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(group.size())]
        dist.all_gather(parts, tensor.contiguous(), group=group)
        ctx.rank = group.rank()
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        _refuse_graph()
        return grad[ctx.rank], None


def _refuse_graph() -> None:
    if torch.is_grad_enabled():  # a graph of the gradient is requested
        raise RuntimeError(_ONCE)


def _gather(tensor: Tensor, dim: int, sizes: list[int], group: "ProcessGroup") -> Tensor:
    """Return tensors of a group, of these sizes along an axis, as one."""
    missing = max(sizes) - tensor.shape[dim]
    padding = [0, 0] * (tensor.dim() - 1 - dim) + [0, missing]
    parts = _Gather.apply(F.pad(tensor, padding), group)  # type: ignore[no-untyped-call]
    return torch.cat([part.narrow(dim, 0, size) for part, size in zip(parts, sizes, strict=True)], dim)
