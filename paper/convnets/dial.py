"""``image-dial``: when does explicit diversity pay on images? Losses, widths and epochs on CIFAR-10 and CIFAR-100."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoint.records import Grid
from counterpoint.training import pick_device
from paper.convnets import dial_tables, robust_tables
from paper.convnets.images import ImageSets
from paper.convnets.study import Point, jobs_of
from paper.runner import Study, run_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["POINTS", "SMOKE_POINTS", "STUDY", "reproduce"]


def _grids(record: Mapping[str, Any]) -> list[Grid]:
    main = [dial_tables.summary(record), dial_tables.equivalences(record)]
    rest = [*dial_tables.grids(record), *robust_tables.grids(record)]
    return [grid for grid in (*main, *rest) if grid.rows]


def _figures(record: Mapping[str, Any]) -> "dict[str, Figure]":
    return {"image-dial": dial_tables.draw(record), "image-robust": robust_tables.draw(record)}


STUDY = Study("image-dial", "The dial of diversity on images", _grids, _figures)

N_LEARNERS = {4: 10, 8: 10, 16: 5, 32: 5, 64: 3}
DIALS = {10: "0.9", 5: "0.8", 3: "0.67"}  # the default 1 - 1/N by the number of learners
OTHERS = ("0.25", "joint-sum", "joint-proba", "paper-0.5", "paper-1.0")


def _point(
    data: str,
    width: int,
    epochs: int,
    arms: tuple[str, ...],
    kind: str = "",
    n_learners: int | None = None,
    **settings: Any,
) -> Point:
    """Return a point; of its arms ``"default"`` is the dial that suits the number of learners."""
    n_learners = N_LEARNERS[width] if n_learners is None else n_learners
    own = tuple(DIALS[n_learners] if arm == "default" else arm for arm in arms)
    name = f"{data}-w{width}-e{epochs}{kind}"
    return Point(name, data, width, n_learners, epochs, own, **settings)


PAIR = ("independent", "default")
FAIR = (*PAIR, "joint-logits", "single")  # with the baselines of about equal cost
FEW: dict[str, Any] = {"n_train": 5_000, "kind": "-few"}

# The most informative first.
POINTS = (
    _point("cifar10", 8, 10, FAIR, n_seeds=5, robust=True),
    _point("cifar100", 8, 10, FAIR, n_seeds=5),
    _point("cifar10", 32, 10, FAIR, n_seeds=5, robust=True),
    _point("cifar100", 32, 10, FAIR, n_seeds=5),
    _point("cifar10", 8, 10, ("0.5", "paper-0.9"), robust=True),
    _point("cifar10", 32, 10, ("paper-0.9",), robust=True),
    _point("cifar10", 32, 10, ("0.5",)),
    *(_point("cifar100", width, 10, ("paper-0.9",)) for width in (8, 32)),
    _point("cifar10", 8, 10, OTHERS),
    _point("cifar10", 64, 10, PAIR, n_seeds=5),
    _point("cifar10", 4, 10, (*FAIR, "paper-0.9")),
    _point("cifar100", 4, 10, FAIR),
    _point("cifar10", 8, 50, PAIR, n_seeds=5),
    _point("cifar100", 8, 50, PAIR, n_seeds=5),
    _point("cifar10", 32, 30, PAIR),
    _point("cifar100", 32, 30, PAIR),
    _point("cifar10", 32, 50, PAIR, n_seeds=5),
    _point("cifar100", 32, 50, PAIR, n_seeds=5),
    _point("cifar10", 16, 10, PAIR),
    *(_point("cifar10", width, 40, PAIR, **FEW) for width in (8, 32)),
    *(_point("cifar10", width, 1, PAIR) for width in (8, 32)),
    _point("cifar10", 32, 10, ("joint-proba",)),
    _point("cifar100", 16, 10, PAIR),
    _point("cifar100", 64, 10, PAIR),
    _point("cifar100", 8, 1, PAIR),
    _point("cifar10", 8, 10, (*PAIR, "joint-logits"), "-n5", n_learners=5),
)
SMOKE_POINTS = (
    Point(
        "digits-w2-e1",
        "digits",
        2,
        2,
        1,
        ("independent", "0.5", "0.9", *FAIR[2:], "paper-0.9", *OTHERS[1:]),
        n_seeds=1,
    ),
    Point("digits-w4-e1", "digits", 4, 2, 1, ("independent", "0.8", "0.9"), n_seeds=1, robust=True),
)


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Run the jobs that are not done yet, and write a record of all that are.

    ``parts`` selects the jobs to run: beginnings of their names, separated by commas. ``seeds`` is the highest number
    of seeds of any point.
    """
    where = pick_device(device)
    jobs = jobs_of(SMOKE_POINTS if smoke else POINTS, seeds, ImageSets(data, smoke=smoke), where)
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)
