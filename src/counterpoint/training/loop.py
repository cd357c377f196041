"""One visible loop that trains an ensemble."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from counterpoint._validation import check_flag, check_whole
from counterpoint.training.arguments import (
    Metric,
    check_callbacks,
    check_checkpoint,
    check_learners,
    check_loss,
    check_mesh,
    check_optimizer,
    check_scheduler,
    resolve,
    trainable_parameters,
)
from counterpoint.training.batches import Batches
from counterpoint.training.callbacks import ProgressBar, State, call, hooks
from counterpoint.training.history import History
from counterpoint.training.parallel import ParallelEnsemble, axes_of, parallelize, whole_state
from counterpoint.training.run import Run
from counterpoint.training.run_checkpoint import RunCheckpoint

__all__ = ["fit"]

_log = logging.getLogger(__name__)


def fit(
    ensemble: nn.Module,
    batches: Batches,
    *,
    loss: Callable[..., Tensor],
    optimizer: Optimizer | Callable[[Iterable[nn.Parameter]], Optimizer],
    epochs: int,
    scheduler: LRScheduler | Callable[[Optimizer], LRScheduler] | None = None,
    validation: Batches | None = None,
    metric: Metric = "vote_accuracy",
    patience: int | None = None,
    callbacks: Sequence[Any] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    precision: str = "auto",
    progress: bool = True,
    scheduler_steps: str = "auto",
    accumulate: int = 1,
    unpack: Callable[[Any], Any] | None = None,
    mesh: Any = None,
) -> History:
    """Train an ensemble and return its history.

    Parameters
    ----------
    ensemble : Module
        An :class:`Ensemble` or a :class:`MemberAxis`, possibly wrapped by ``torch.compile`` or
        ``DistributedDataParallel``, or any module that returns ``(n_learners, batch, n_classes)``. It is trained in
        place, on its device, in training mode.
    batches : iterable, or callable
        Batches ``(x, y)`` or ``(x, y, sample_weight)``: a ``DataLoader``, a list of batches, or a callable that takes
        the number of the epoch, from 1, and returns an iterable. ``x`` may be a list with one view for each learner.
        Networks may return a row for each token, ``(batch, length, n_classes)``: ``y`` is then ``(batch, length)``, and
        tokens with the label -100 are left out.
        Either all batches have weights or none has.
    loss : callable
        ``loss(logits, y)``, or ``loss(logits, y, sample_weight)`` if there are weights; an :class:`EnsembleLoss` or any
        callable.
    optimizer : Optimizer, or callable
        An optimizer of the ensemble's parameters, or a callable that makes one of them, such as ``torch.optim.Adam``.
    epochs : int
        Number of epochs, including those of an interrupted run.
    scheduler : LRScheduler, or callable, optional
        A scheduler of the optimizer, or a callable that makes one of it.
    validation : iterable, or callable, optional
        Batches that select the best epoch. The ensemble ends with the weights of that epoch.
    metric : {"vote_accuracy", "log_loss", "loss", "squared_error"} or callable, default="vote_accuracy"
        Criterion on the validation data: the accuracy of the vote, the log-loss of its probabilities, or the loss. For
        regression the squared error of the mean, or the loss. A
        callable takes all logits ``(n_learners, n_samples, n_classes)`` and the targets, and higher is better.
    patience : int, optional
        Stop after this number of epochs without improvement.
    callbacks : sequence of Callback, default=()
        Hooks of the loop.
    checkpoint : path, optional
        File that is rewritten atomically at the start and after every epoch, and at the end if there is a read-out. The
        one before is kept, with ``.previous`` after its name. It must not exist unless ``resume`` is true.
    resume : bool, default=False
        Continue from the checkpoint if it exists; if it is damaged, from the one before, with a warning.
    precision : {"auto", "float32", "bf16"}, default="auto"
        ``"bf16"`` runs the networks under autocast to bfloat16, as ``"auto"`` does on CUDA; ``"float32"`` without.
    progress : bool, default=True
        Whether to show a progress bar on a terminal.
    scheduler_steps : {"auto", "epoch", "batch"}, default="auto"
        When the scheduler steps; ``"auto"`` is after each batch for ``OneCycleLR`` and ``CyclicLR``, which count
        batches, and after each epoch for others. ``ReduceLROnPlateau`` gets the loss of the validation data, or of the
        epoch if there are none.
    accumulate : int, default=1
        Number of batches that make up one step. The loss is that of all of them together, exactly, with the memory of
        one batch and a second forward pass: see :func:`accumulate_gradients`.
    unpack : callable, optional
        Turns what ``batches`` and ``validation`` yield into ``(x, y)`` or ``(x, y, sample_weight)``, such as
        ``lambda batch: ({"input_ids": batch["ids"]}, batch["label"])``. An ``x`` that is a mapping is given to each
        network by name.
    mesh : DeviceMesh or ProcessGroup, optional
        The processes that train together: a mesh with the dimensions ``"learners"`` and ``"data"``, or one of them; a
        process group is a data axis. Every process calls ``fit`` with the same arguments.

    Returns
    -------
    History
        The measures of each epoch.

    Raises
    ------
    FileExistsError
        If ``checkpoint`` exists and ``resume`` is False.
    FloatingPointError
        If the loss or a weight becomes NaN or infinite. The ensemble is restored to its last finite state, which is
        also that of the checkpoint.
    ConnectionError
        If another process of the mesh has ended or does not answer.

    Warns
    -----
    LearnerWarning
        Once for each learner that is constant over an epoch, or whose correlation with the truth over an epoch is
        negative, though it was positive before, or still after five epochs. Also if an ensemble holds a learner twice,
        or if a module trains an ensemble inside whose outputs it does not return.

    Notes
    -----
    An ensemble whose ``voting`` is ``"auto"`` adopts the vote that the loss trains: geometric after a
    :class:`DiversityLoss`, soft after an :class:`IndependentLoss`.

    A correlation is invariant to the scale and offset of a column. After a :class:`CorrelationLoss`, which leaves them
    undetermined, an :class:`Ensemble` is calibrated on the training batches at the end, and on some of them before each
    validation by a measure of the vote. Measures of the vote on training batches use raw outputs and may look poor.

    Dropout and shuffling draw from torch's global generator, which is left for the user to seed. Only resuming sets it,
    together with the generators of NumPy, Python, ``batches`` and ``validation``, to their saved states. A killed run
    that resumes ends with the same weights, bit for bit on the CPU, unless a callable returns batches that have a
    generator of their own. The scheduler goes on with the settings that were saved. Resuming a finished run returns
    its history.

    On the CPU the number of torch's threads is chosen by the size of the networks and of the first batch, at most what
    ``torch.set_num_threads`` or the environment variable ``OMP_NUM_THREADS`` says, and restored at the end.

    On a ``mesh`` each process trains some of the learners, on its rows of each batch, and the result is that of one
    process: every process ends with the whole ensemble. Batches must be the same on all processes, unless they come
    from a ``DataLoader`` with a ``DistributedSampler``. An ensemble that is inside ``DistributedDataParallel`` already
    trains with its processes, each with batches of its own, as is usual there. The loss is always that of the whole
    batch. Measures, the best epoch, stopping and the read-out are decided once for all; one process writes the
    checkpoint, from which a run resumes on any mesh. ``docs/scale.md`` has examples.

    Examples
    --------
    >>> import torch
    >>> from counterpoint.training import DiversityLoss, Ensemble
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(128, 2)
    >>> y = (x[:, 0] * x[:, 1] > 0).long()
    >>> learners = [nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)) for _ in range(5)]
    >>> history = fit(
    ...     Ensemble(learners),
    ...     list(zip(x.split(32), y.split(32))),
    ...     loss=DiversityLoss(),
    ...     optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.03),
    ...     epochs=10,
    ... )
    >>> bool(history["log_loss"][-1] < 0.5 < history["log_loss"][0])
    True
    """
    given, own_batches = ensemble, mesh is None
    axes = check_mesh(ensemble, loss, mesh, optimizer)
    ensemble = parallelize(ensemble, axes) if mesh is not None and not axes_of(ensemble) else ensemble
    trained = trainable_parameters(ensemble)
    check_learners(ensemble)
    check_loss(loss, ensemble)
    resumes = axes.once(lambda: check_checkpoint(checkpoint, resume))
    optimizer = resolve(optimizer, Optimizer, "optimizer", trained)
    check_optimizer(optimizer, ensemble, loss)
    schedule = None if scheduler is None else resolve(scheduler, LRScheduler, "scheduler", optimizer)
    check_scheduler(schedule, optimizer)
    epochs = check_whole(epochs, "epochs", minimum=1)
    accumulate = check_whole(accumulate, "accumulate", minimum=1)
    state = State(ensemble, loss, optimizer, schedule, epochs, History(), axes=axes)
    everybody = check_callbacks(callbacks) + ((ProgressBar(),) if check_flag(progress, "progress") else ())
    run = Run(
        state,
        batches,
        validation,
        metric,
        patience,
        everybody,
        precision,
        scheduler_steps,
        accumulate,
        unpack,
        own_batches,
    )
    file = RunCheckpoint(run, checkpoint)
    saved = file.load() if resumes else None
    run.prepare_vote()
    ensemble.train()
    with run.threads:
        _train(run, saved, file)
        run.calibrate()
    if run.readout is not None and not file.was_finished:
        file.save()
    if given is not ensemble and isinstance(ensemble, ParallelEnsemble):
        given.load_state_dict(whole_state(ensemble))
    return state.history


def _train(run: Run, saved: Mapping[str, Any] | None, file: RunCheckpoint) -> None:
    """Train until the run is finished, from the state that was saved, and end with the best weights."""
    state = run.state
    with ExitStack() as ending:
        ending.enter_context(run.loss.on(run.axes))
        ending.enter_context(run.naming_lost_processes())
        for callback in run.callbacks:
            call(hooks([callback], "on_train_begin"), state)
            for hook in hooks([callback], "on_train_end"):
                ending.callback(hook, state)
        if saved is not None:
            file.restore_random(saved)
        else:
            file.save()
        while not run.is_finished():
            with run.restoring_if_not_finite():
                run.begin_epoch()
                record = run.train()
                record |= run.validate()
                run.end_epoch(record)
            if run.axes.is_main:
                _log.info("epoch %d of %d: loss %.4g", state.epoch, state.epochs, record["loss"])
            file.save()
        run.keep_best()
