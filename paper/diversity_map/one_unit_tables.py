"""Learners of one hidden unit against independent ones with a read-out, and after more steps, in words and tables."""

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.records import Grid
from counterpoint.records import markdown as in_markdown
from paper.diversity_map.analysis import choose, gains_of, log_gain, read_map, reduction
from paper.diversity_map.one_unit import BASELINE, NAME, READ_OUT
from paper.diversity_map.tables import change, percent

__all__ = ["NAME", "After", "after", "markdown"]

CHOSEN = "chosen"  # the diversity that is best on the other tables, as the map knows it
SHOWN = 15  # learners of the table of errors


class After(NamedTuple):
    """Rows that soft votes get wrong after some steps, in one pass over a table."""

    steps: int
    learners: list[int]
    wrong: dict[str, NDArray[np.float64]]  # of each arm (S, L)

    def gain(self, arm: str, baseline: str) -> NDArray[np.float64]:
        """Return the gains (S, L) of an arm over another."""
        return log_gain(self.wrong[baseline], self.wrong[arm])

    @property
    def diverse(self) -> list[str]:
        """The arms that have a diversity."""
        return [arm for arm in self.wrong if arm not in (BASELINE, READ_OUT)]


def markdown(record: Mapping[str, Any], map_record: Mapping[str, Any]) -> str:
    """Return findings and tables as Markdown, from the record of learners of one unit and from that of the map."""
    found = after(record, map_record)
    said = "\n".join(f"- {sentence}" for sentence in findings(found, record, map_record))
    grids = [_gain_grid(found, BASELINE), _gain_grid(found, READ_OUT), _error_grid(found, record)]
    return f"{said}\n\n{in_markdown(grids)}"


def after(record: Mapping[str, Any], map_record: Mapping[str, Any]) -> list[After]:
    """Return what was counted after each number of steps; where the map has trained as long, with its diversities."""
    config, tables = record["config"], record["config"]["data"]
    parts = {(part["steps"], part["data"], part["n_learners"]): part for part in record["data"]}
    losses = next(run["losses"] for run in config["runs"] if len(run["losses"]) > 1)
    found = []
    for run in config["runs"]:
        steps, learners = run["steps"], list(run["learners"])
        cells = [[parts[steps, name, n] for n in learners] for name in tables]
        wrong = {arm: _counts(cells, arm, config["folds"]) for arm in cells[0][0]["wrong"]["soft"]}
        if steps == map_record["config"]["steps"]:
            wrong |= _of_map(map_record, tables, learners, losses[1:])
        found.append(After(steps, learners, wrong))
    return found


def _of_map(
    record: Mapping[str, Any], tables: list[str], learners: list[int], losses: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return what the map counts for its smallest learners, at some diversities and at that of the other tables."""
    full = read_map(record)
    smallest = full.hidden[0]
    parts = {(p["data"], p["n_learners"]): p for p in record["data"] if p["hidden"] == smallest}
    cells = [[parts[name, n] for n in learners] for name in tables]
    folds = record["config"]["folds"]
    every = np.stack([_counts(cells, loss, folds) for loss in full.losses], axis=-1)
    rows, columns = [full.tables.index(name) for name in tables], [full.learners.index(n) for n in learners]
    places = choose(full.gain)[:, :, 0][np.ix_(rows, columns)]
    chosen = np.take_along_axis(every, places[..., None], axis=-1)[..., 0]
    return {**{loss: every[..., full.losses.index(loss)] for loss in losses}, CHOSEN: chosen}


def _counts(cells: list[list[Any]], arm: str, folds: int) -> NDArray[np.float64]:
    """Return the wrong rows (S, L) of an arm in one pass."""
    return np.array(
        [[np.sum(p["wrong"]["soft"][arm]) * folds / len(p["rows"]) for p in row] for row in cells]
    )


def findings(found: list[After], record: Mapping[str, Any], map_record: Mapping[str, Any]) -> list[str]:
    """Return what a read-out and more steps do, in sentences with numbers."""
    short, long = found[0], found[-1]
    shared = [short.learners.index(n) for n in long.learners]
    faster = log_gain(short.wrong[BASELINE][:, shared], long.wrong[BASELINE])
    read = short.gain(READ_OUT, BASELINE)
    in_map = gains_of(read_map(map_record).gain, None)[:, :, 0]
    raw, beyond, before = (
        change(reduction(gain.mean()))
        for gain in (short.gain(CHOSEN, BASELINE), short.gain(CHOSEN, READ_OUT), in_map)
    )
    then = [
        f"{change(reduction(gain.mean()))} at diversity {arm} ({_cells(gain)})"
        for arm, gain in ((arm, long.gain(arm, READ_OUT)) for arm in long.diverse)
    ]
    return [
        f"After {short.steps} steps, as in the map, independent learners err {change(reduction(read.mean()))} with the "
        f"read-out than without ({_cells(read)}). With the diversity that is best on the other tables learners err "
        f"{beyond} than independent ones with a read-out, and {raw} than those without (in the map {before}; its "
        f"independent networks were trained on {map_record['device']}).",
        f"After {long.steps} steps independent learners ({_listed(long.learners)} of them) err "
        f"{change(reduction(faster.mean()))} than after {short.steps}. Against them with a read-out learners then err "
        f"{', '.join(then)}.",
        f"Run on {record['device']}, {record['seconds']:.0f} s.",
    ]


def _gain_grid(found: list[After], baseline: str) -> Grid:
    """Return the share of errors that each arm takes away from those of a baseline, by steps and learners."""
    arms = [arm for arm in found[0].wrong if arm != BASELINE and arm != baseline]
    rows = []
    for one in found:
        gains = {arm: one.gain(arm, baseline).mean(axis=0) for arm in arms if arm in one.wrong}
        for place, n in enumerate(one.learners):
            cells = [percent(reduction(gains[arm][place])) if arm in gains else "" for arm in arms]
            rows.append([str(one.steps), str(n), *cells])
    what = "independent learners" + (" with a read-out" if baseline == READ_OUT else "")
    n_tables = len(found[0].wrong[BASELINE])
    return Grid(
        f"Errors of {what} taken away, one hidden unit, soft vote, % (mean over {n_tables} tables)",
        ["steps", "learners", *arms],
        rows,
        n_words=2,
    )


def _error_grid(found: list[After], record: Mapping[str, Any]) -> Grid:
    """Return the errors on each table for one number of learners."""
    tables = record["config"]["data"]
    n_rows = {part["data"]: sum(part["rows"]) for part in record["data"]}
    passes = {part["data"]: len(part["rows"]) / record["config"]["folds"] for part in record["data"]}
    shown = SHOWN if all(SHOWN in one.learners for one in found) else found[-1].learners[-1]
    arms = list(found[0].wrong)
    rows = []
    for (s, name), one in product(enumerate(tables), found):
        place = one.learners.index(shown)
        wrong = {arm: counts[s, place] for arm, counts in one.wrong.items()}
        errors = [
            f"{100 * wrong[arm] * passes[name] / n_rows[name]:.2f}" if arm in wrong else "" for arm in arms
        ]
        rows.append([name, str(one.steps), *errors])
    title = f"Error of the soft vote of {shown} learners of one hidden unit, %"
    return Grid(title, ["data", "steps", *arms], rows, n_words=2)


def _cells(gains: NDArray[np.float64]) -> str:
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return f"better in {better} of {gains.size} cells, worse in {worse}"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" or {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
