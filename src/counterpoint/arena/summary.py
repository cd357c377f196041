"""What the records of a store show together."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.arena.jobs import COUNTS, SETTINGS
from counterpoint.arena.methods import BASELINE, EXPLICIT, METHODS
from counterpoint.arena.ranks import LEVEL, correct_together, rank_methods
from counterpoint.arena.statistics import mean_interval
from counterpoint.estimators import corrected_paired_test
from counterpoint.records import number

__all__ = ["SCORES", "STANDING", "collect_folds", "points", "summarise", "values"]

# Scores of the probabilities of the vote, and their names in tables; lower is better.
SCORES = {"log_loss": "log-loss", "brier_score": "Brier score", "calibration_error": "calibration error"}
# Measures of the learners, and their names in tables.
STANDING = {
    "learner_accuracy": "learner accuracy",
    "r_tl": "r_TL",
    "r_ll": "r_LL",
    "optimality": "optimality",
}

Folds = list[dict[str, Any]]
Repeats = dict[int, Folds]  # the folds of each repeat that a method has run
Results = dict[str, dict[str, Repeats]]  # by table and method


def summarise(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return errors, scores, ranks and tests from the records of jobs, as plain numbers.

    Parameters
    ----------
    records : iterable of dict
        From :func:`read_records`, all of one setting.

    Returns
    -------
    dict
        ``errors`` and ``log_losses`` with intervals, ``scores`` where all folds have them, ``standing``, ``seconds`` a
        fold and the tests ``against`` the baseline by table and method; ``total_seconds`` by method; ``paid`` by
        table; ``uneven`` for tables on which methods have run different repeats; and ``ranks`` by error and
        ``log_loss_ranks`` over the tables, for the methods that have run on all of them.

    Raises
    ------
    ValueError
        If there are no records, or records of different settings or candidates.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.arena import arena, read_records, read_suite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = arena(read_suite(["iris"]), folder, methods=["extra-trees"], smoke=True)
    ...     summary = summarise(read_records(folder))
    >>> summary["data"]["iris"]["rows"], summary["errors"]["iris"]["extra-trees"]["n"]
    (150, 3)
    """
    results, settings, data = collect_folds(records)
    if not results:
        raise ValueError("`records` must hold at least one finished job; got none.")
    share = 1 / (settings["n_folds"] - 1)
    against = {name: _against(found, share) for name, found in results.items()}
    correct_together(*against.values())
    folds = {name: {m: _all(repeats) for m, repeats in found.items()} for name, found in results.items()}
    errors = _spreads(folds, "error", share)
    log_losses = _spreads(folds, "log_loss", share)
    ranks, log_loss_ranks = rank_methods(errors), rank_methods(log_losses)
    correct_together(*(found["against"] for found in (ranks, log_loss_ranks) if found))
    uneven = {name: _uneven(name, found) for name, found in results.items()}
    return {
        "settings": settings,
        "data": data,
        "errors": errors,
        "log_losses": log_losses,
        "scores": {
            name: {m: own for m, f in found.items() if (own := _scores(f))} for name, found in folds.items()
        },
        "standing": {name: {m: _standing(f) for m, f in found.items()} for name, found in folds.items()},
        "seconds": {
            name: {m: float(np.mean([one["seconds"] for one in f])) for m, f in found.items()}
            for name, found in folds.items()
        },
        "total_seconds": {
            m: _total_seconds(folds, m) for m in METHODS if any(m in f for f in folds.values())
        },
        "against": against,
        "paid": {name: _paid(name, errors[name], tests) for name, tests in against.items() if tests},
        "uneven": {name: sentence for name, sentence in uneven.items() if sentence},
        "ranks": ranks,
        "log_loss_ranks": log_loss_ranks,
    }


def collect_folds(records: Iterable[Mapping[str, Any]]) -> tuple[Results, dict[str, Any], dict[str, Any]]:
    """Return the folds of all records, small tables first; their settings; and the counts of the tables."""
    folds: dict[str, dict[str, Repeats]] = defaultdict(lambda: defaultdict(dict))
    shared: dict[str, Any] = {}  # the settings, and the candidates of each method
    data: dict[str, Any] = {}
    for record in records:
        config = record["config"]
        table, method = config["table"], config["method"]
        if method not in METHODS:  # of another version
            continue
        settings = {name: config[name] for name in SETTINGS if name in config}
        for what, own in (("settings", settings), (method, config["candidates"])):
            if shared.setdefault(what, own) != own:
                raise ValueError(
                    f"`out` must hold jobs of the same settings and candidates; got others for {method} on {table}."
                )
        folds[table][method][config["repeat"]] = record["data"]["folds"]
        data[table] = {name: config[name] for name in COUNTS}
    order = sorted(folds, key=lambda name: (data[name]["rows"], name))
    results = {
        name: {
            method: dict(sorted(folds[name][method].items())) for method in METHODS if method in folds[name]
        }
        for name in order
    }
    return results, shared.get("settings", {}), {name: data[name] for name in order}


def _all(repeats: Repeats) -> Folds:
    return [fold for folds in repeats.values() for fold in folds]


def values(folds: Folds, key: str) -> FloatArray:
    """Return a value of each fold; NaN where it is undefined."""
    return np.array([np.nan if fold[key] is None else fold[key] for fold in folds], dtype=float)


def points(difference: float) -> str:
    """Return a difference of errors in percentage points; zero has no sign.

    Examples
    --------
    >>> points(0.012), points(-1e-9)
    ('+1.20', '0.00')
    """
    text = number(100 * difference, "+z.2f")
    return "0.00" if text == "+0.00" else text


def _spreads(
    folds: Mapping[str, Mapping[str, Folds]], key: str, share: float
) -> dict[str, dict[str, dict[str, float | int]]]:
    """Return mean, standard deviation, number and interval of a score by table and method, if all folds have it."""
    return {
        name: {
            m: _spread(f, key, share) for m, f in found.items() if all(one.get(key) is not None for one in f)
        }
        for name, found in folds.items()
    }


def _spread(folds: Folds, key: str, share: float) -> dict[str, float | int]:
    found = values(folds, key)
    low, high = mean_interval(found, LEVEL, share=share)
    most = 1.0 if key == "error" else np.inf
    return {
        "mean": float(found.mean()),
        "sd": float(found.std(ddof=1)),
        "n": len(found),
        "low": max(low, 0.0),
        "high": min(high, most),
    }


def _total_seconds(folds: Mapping[str, Mapping[str, Folds]], method: str) -> float:
    seconds = [one["seconds"] for found in folds.values() for one in found.get(method, [])]
    return round(float(np.sum(seconds)), 1)


def _scores(folds: Folds) -> dict[str, float]:
    """Return the mean of each score that all folds have, which jobs of earlier versions did not record."""
    found = {}
    for key in SCORES:
        own = [fold[key] for fold in folds if fold.get(key) is not None]
        if len(own) == len(folds):
            found[key] = float(np.mean(own))
    return found


def _standing(folds: Folds) -> dict[str, float | None]:
    """Return means over the folds in which a measure is defined."""
    found: dict[str, float | None] = {}
    for key in STANDING:
        numbers = values(folds, key)
        defined = numbers[np.isfinite(numbers)]
        found[key] = float(defined.mean()) if len(defined) else None
    return found


def _against(found: Mapping[str, Repeats], share: float) -> dict[str, dict[str, Any]]:
    """Return the corrected paired test of each method against the baseline, on the repeats that the two share."""
    tests = {}
    for method, repeats in found.items():
        shared = sorted(set(repeats) & set(found.get(BASELINE, {})))
        if method != BASELINE and shared:
            own, base = ([fold for k in shared for fold in found[m][k]] for m in (method, BASELINE))
            differences = values(own, "error") - values(base, "error")  # below 0 is a lower error
            tests[method] = corrected_paired_test(differences, share)._asdict()
    return tests


def _paid(
    name: str, errors: Mapping[str, Mapping[str, float]], tests: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Return whether explicit diversity lowered or raised the error on a table, with a sentence."""
    families = [asked for methods in EXPLICIT if (asked := [m for m in methods if m in tests])]
    if not families:
        return {}
    p = {method: tests[method]["p_corrected"] for asked in families for method in asked}
    sure = [method for method in p if p[method] < LEVEL]
    gains = [method for method in sure if tests[method]["difference"] < 0]
    losses = [method for method in sure if tests[method]["difference"] > 0]
    best = {min(asked, key=lambda method: errors[method]["mean"]): len(asked) for asked in families}

    def described(method: str) -> str:
        among = f", the best of {best[method]} fixed diversities," if best.get(method, 1) > 1 else ""
        numbers = f"{points(tests[method]['difference'])} points, p = {p[method]:#.2g}"
        return f"{method}{among} {100 * errors[method]['mean']:.2f} % ({numbers})"

    visible = [method for method in p if method in {*best, *sure}]
    words = [f"independent networks err {100 * errors[BASELINE]['mean']:.2f} %", *map(described, visible)]
    sentence = f"{_outcome(name, gains, losses)}: {'; '.join(words)}."
    return {"gains": gains, "losses": losses, "sentence": sentence, "p_values": p}


def _outcome(name: str, gains: Sequence[str], losses: Sequence[str]) -> str:
    """Return the outcome on a table, with the methods that made a significant difference."""
    paid, cost = ", ".join(gains), ", ".join(losses)
    if gains and losses:
        return f"Explicit diversity paid on {name} ({paid}) and cost ({cost})"
    if gains or losses:
        return f"Explicit diversity {'paid' if gains else 'cost'} on {name} ({paid or cost})"
    return f"No difference can be told on {name}"


def _uneven(name: str, found: Mapping[str, Repeats]) -> str | None:
    """Return a sentence on the repeats of the methods of a table, if they are not the same for all."""
    methods: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for method, repeats in found.items():
        methods[tuple(sorted(repeats))].append(method)
    if len(methods) < 2:
        return None
    having = "; ".join(f"{', '.join(some)}: {', '.join(map(str, own))}" for own, some in methods.items())
    shared = f", differences over those that it shares with {BASELINE}" if BASELINE in found else ""
    return (
        f"Methods have run different repeats on {name} ({having}): errors and ranks are over all repeats of a "
        f"method{shared}."
    )
