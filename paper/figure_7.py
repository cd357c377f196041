"""Figure 7: DECORATE and the paper's loss on the plane of Theorem 2, while they train on breast-w.

Notation: ``r_tl`` and ``r_ll`` as in the paper, of the learners' probabilities, averaged over the folds of one
cross-validation. ``python -m paper.figure_7 RECORD DOCUMENT`` draws the figure of a record and
writes its caption into a document again.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpoint.estimators import DecorateClassifier
from counterpoint.plots import TradeoffDisplay, house_style
from counterpoint.records import given_paths, read_record, refill, write_figure, write_record
from counterpoint.training import GroupedEnsembles, correlations, pick_device
from paper.decorated import grow_networks
from paper.device import device_name
from paper.programs import Split, train_in_chunks
from paper.tabular import SMOKE, Settings, cross_validation, make_groups, make_losses, schedule_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "DECORATE and the paper's loss on the plane of Theorem 2, while they train on breast-w"
DATA = "breast-w"
PARTS = {"train": "Training rows", "held_out": "Held-out rows"}
NAMES = {
    "decorate": "DECORATE, nets",
    "mean": "the paper's loss, mean",
    "sum": "the paper's loss, sum",
    "independent": "independent nets",
}

CORNER = ("decorate", "independent")  # the ensembles of the enlarged corner


def reproduce(out: Path, *, device: str = "auto", seed: int = 0, smoke: bool = False) -> list[Path]:
    """Follow the ensembles through their training; draw and write their paths."""
    settings = dataclasses.replace(SMOKE if smoke else Settings(), seed=seed)
    chosen = pick_device(device)
    start = time.perf_counter()
    found = compute(settings, chosen)
    return [
        *write_figure(draw(found, settings.n_learners, smoke=smoke), out, "figure-7"),
        *write_record(
            out,
            "figure-7",
            title=TITLE,
            config={"smoke": smoke, "data": DATA, **dataclasses.asdict(settings)},
            device=device_name(chosen),
            seconds=round(time.perf_counter() - start, 1),
            data=found,
        ),
    ]


def compute(settings: Settings, device: torch.device) -> dict[str, Any]:
    """Return the paths of all ensembles on the plane, and how many learners DECORATE keeps in each fold.

    ``[part][name]`` has ``r_tl`` and ``r_ll``, a number for each epoch, or for each size from 2 on. DECORATE has no
    path if each fold keeps a single learner.
    """
    splits = cross_validation(DATA, 1, settings)
    ensembles = grow_networks(splits, settings)
    by_size = correlations_by_size(splits, ensembles, settings.n_learners)
    paths = {} if by_size is None else {"decorate": by_size}
    paths |= correlations_by_epoch(splits, settings, device)
    return {
        "learners": [len(ensemble.estimators_) for ensemble in ensembles],
        **{
            part: {
                name: {key: np.round(path[p, i], 5).tolist() for i, key in enumerate(("r_tl", "r_ll"))}
                for name, path in paths.items()
            }
            for p, part in enumerate(PARTS)
        },
    }


def correlations_by_epoch(
    splits: Sequence[Split], settings: Settings, device: torch.device
) -> dict[str, NDArray[np.float64]]:
    """Return (parts, 2, epochs) for each loss: both correlations after each epoch."""
    losses = make_losses(settings)
    groups = make_groups(splits, list(losses.values()), settings, device)
    rows = [split.tensors(device) for split in splits for _ in losses]
    found = np.empty((len(groups), len(PARTS), 2, settings.epochs))

    def measure(chunk: slice, epoch: int, program: GroupedEnsembles) -> None:
        for part in range(len(PARTS)):
            x, y = zip(*(own[2 * part : 2 * part + 2] for own in rows[chunk]), strict=True)
            found[chunk, part, :, epoch - 1] = [
                _correlations(z.softmax(-1), target) for z, target in zip(program.logits(x), y, strict=True)
            ]

    for _ in train_in_chunks(groups, schedule_of(splits, settings), on_epoch=measure):
        pass
    return {name: np.mean(found[c :: len(losses)], axis=0) for c, name in enumerate(losses)}


def correlations_by_size(
    splits: Sequence[Split], ensembles: Sequence[DecorateClassifier], largest: int
) -> NDArray[np.float64] | None:
    """Return (parts, 2, sizes) for the first 2, 3, ... learners; an ensemble that stops growing stays where it is.

    Folds with a single learner have no position on the plane and are left out; None if there are no others.
    """
    found = []
    for split, ensemble in zip(splits, ensembles, strict=True):
        if len(ensemble.estimators_) < 2:
            continue
        sizes = [min(size, len(ensemble.estimators_)) for size in range(2, largest + 1)]
        path = []
        for table, labels in ((split.table, split.labels), (split.test_table, split.test_labels)):
            proba = torch.as_tensor(ensemble.learner_predict_proba(table))
            path.append(np.transpose([_correlations(proba[:n], torch.as_tensor(labels)) for n in sizes]))
        found.append(path)
    return np.mean(found, axis=0) if found else None


def _correlations(proba: Tensor, target: Tensor) -> list[float]:
    return [float(value) for value in correlations(proba, target)]


def draw(found: Mapping[str, Any], n_learners: int, *, smoke: bool) -> "Figure":
    """Draw both planes, and below them their upper corners."""
    from matplotlib.figure import Figure

    names = {**NAMES, "decorate": f"{NAMES['decorate']} ({_folds_with_a_path(found)})"}
    with house_style():
        figure = Figure(figsize=(11.0, 9.2))
        axes = figure.subplots(2, 2)
        figure.suptitle(_heading(found, n_learners, smoke=smoke), size=13, weight="bold")
        for (whole, near), (part, words) in zip(axes.T, PARTS.items(), strict=True):
            paths = {names[name]: (path["r_tl"], path["r_ll"]) for name, path in found[part].items()}
            display = TradeoffDisplay(n_learners, trajectories=paths)
            display.plot(whole, legend=part == "train")
            display.plot(near, legend=False)
            whole.set(title=words, ylim=(-0.1, 1.06))
            corner = [found[part][name] for name in CORNER if name in found[part]]
            r_tl, r_ll = ([value for path in corner for value in path[key]] for key in ("r_tl", "r_ll"))
            width, height = max(np.ptp(r_ll), 0.02), max(np.ptp(r_tl), 0.02)
            near.set(title=f"{words}, the upper corner", xlim=(min(r_ll) - 0.1 * width, 1 + 0.1 * width))
            near.set_ylim(min(r_tl) - 0.3 * height, 1 + 0.1 * height)
    return figure


def _heading(found: Mapping[str, Any], n_learners: int, *, smoke: bool) -> str:
    start = "Smoke run: ensembles" if smoke else "Ensembles"
    few, many = min(found["learners"]), max(found["learners"])
    kept = f"{few}" if few == many else f"{few} to {many}"
    return f"{start} of {n_learners} nets (DECORATE keeps {kept}) in training on {DATA}"


def _folds_with_a_path(found: Mapping[str, Any]) -> str:
    return f"{sum(n > 1 for n in found['learners'])} of {len(found['learners'])} folds"


def caption(record: Mapping[str, Any]) -> str:
    """Return how many nets DECORATE keeps in the folds, and over how many folds its line is averaged."""
    learners, n_learners = record["data"]["learners"], record["config"]["n_learners"]
    counts = ", ".join(f"{n} in {times}" for n, times in sorted(Counter(learners).items()))
    kept = f"Of {n_learners} nets that it may have, DECORATE keeps {counts} of the {len(learners)} folds."
    alone = "One net alone has no place on the plane, so"
    if max(learners) < 2:
        return f"{kept} {alone} DECORATE has no line.\n"
    return (
        f"{kept} {alone} DECORATE's line is the mean over {_folds_with_a_path(record['data'])}, "
        f"of which {learners.count(2)} end where they begin, with two nets.\n"
    )


if __name__ == "__main__":
    source, target = given_paths("paper.figure_7", "record", "document")
    record = read_record(source)
    config = record["config"]
    figure = draw(record["data"], config["n_learners"], smoke=config["smoke"])
    refill(target, {"figure-7": caption(record)}, {"figure-7": figure})
