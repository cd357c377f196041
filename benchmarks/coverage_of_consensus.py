"""How often the bounds of a consensus hold, and who is called a copy: ``python benchmarks/coverage_of_consensus.py``.

Panels are drawn at random, so that no rule was made on them: 3 to 21 learners of unequal accuracy, 2 to 6 classes, 100
to 1000 samples; a difficulty that all share, so that being right is correlated by up to 0.5 (one-factor probit); wrong
labels that all find tempting on some samples; and in half of the panels one or two learners that copy another. The
panel of ``--judges``, JudgeBench in long form, is taken as it is, and with each judge copied.

The record says, by the kind of panel: how often the share of right labels of the consensus lay within its bounds, and
the mean accuracy of the learners within theirs; how far the model of independent errors, and the confidence of the
samples, were above the truth; how right the consensus was beside the vote; and which share of the pairs that were found
without and with the truth were no copies.
"""

import argparse
import json
import platform
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtri

from counterpoint import __version__, assess

SIZES, CLASSES, SAMPLES = (3, 4, 5, 7, 11, 21), (2, 2, 3, 6), (100, 300, 1000)


def draw(rng: np.random.Generator):
    """Return the truth, the votes, who copies whom, and the correlation of being right."""
    n, m, samples = (int(rng.choice(one)) for one in (SIZES, CLASSES, SAMPLES))
    p = np.clip(rng.uniform(0.55, 0.92) + rng.choice([0, 0.06]) * rng.normal(size=n), 0.5, 0.97)[:, None]
    latent = rng.choice([0.0, 0.3, 0.6])
    truth = rng.choice(m, samples, p=rng.dirichlet(np.full(m, 20)))
    skill = np.sqrt(latent) * rng.normal(size=samples) + np.sqrt(1 - latent) * rng.normal(size=(n, samples))
    tempting = (truth + rng.integers(1, m, samples)) % m
    other = (truth + rng.integers(1, m, (n, samples))) % m
    wrong = np.where(rng.random((n, samples)) < rng.choice([0.0, 0.4]), tempting, other)
    votes = np.where(skill < ndtri(p), truth, wrong)
    family = []
    if rng.random() < 0.5:
        family = list(range(1 + int(rng.integers(1, 3 if n > 4 else 2))))
        for i in family[1:]:
            votes[i] = np.where(rng.random(samples) < rng.uniform(0.85, 1), votes[0], votes[i])
    right = votes == truth
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        c = np.nanmean(np.corrcoef(right[len(family[1:]) :])[np.triu_indices(n - len(family[1:]), 1)])
    return truth, votes, family, float(c)


def judge(truth, votes, family) -> dict:
    """Return what was said and what is true of one panel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, known = assess(votes), assess(truth, votes)
    right = float(np.mean(np.array(a.consensus) == truth))
    mean = float(np.mean(votes == truth))
    bounds = a.bounds
    named = next((f.numbers["families"] for f in known.findings if f.code == "families"), [])
    copies = {(i, j) for i in family for j in family if i < j}

    def false(families) -> float:
        pairs = {(i, j) for one in families for i in one for j in one if i < j}
        return len(pairs - copies) / max(len(pairs), 1)

    def found(families) -> float:
        return float(any(set(family) <= set(one) for one in families))

    return {
        "inside": bounds.consensus.low <= right <= bounds.consensus.high,
        "learner_inside": bounds.learner.low <= mean <= bounds.learner.high,
        "width": bounds.consensus.high - bounds.consensus.low,
        "independent_claim": np.nan if a.estimated is None else a.estimated.confidence - right,
        "confidence": float(a.confidence.mean()) - right if a.model != "votes" else np.nan,
        "against_vote": right - known.vote.value,
        "warned": any(
            f.code in ("shared_errors", "families", "close_pairs", "no_agreement") for f in a.findings
        ),
        "false_without_truth": false(a.families),
        "false_with_truth": false(named),
        "found_without_truth": found(a.families) if family else np.nan,
        "found_with_truth": found(named) if family else np.nan,
    }


def study(seed: int) -> dict:
    """Return one simulated panel."""
    truth, votes, family, c = draw(np.random.default_rng([seed, 2026]))
    return judge(truth, votes, family) | {"learners": len(votes), "copies": len(family) > 0, "c": c}


def real(path: Path) -> list[dict]:
    """Return six judges of JudgeBench in each order, as they are and with each one copied."""
    table = pd.read_csv(path)
    turned = table.decision.map({"A>B": "B>A", "B>A": "A>B", "A=B": "A=B"})
    table["vote"] = np.where(table.order == 1, turned, table.decision)
    rows = []
    for order, part in table.groupby("order"):
        votes = part.pivot_table(index="pair_id", columns="judge", values="vote", aggfunc="first")
        truth = part.drop_duplicates("pair_id").set_index("pair_id").truth.loc[votes.index].to_numpy()
        plain = np.where(votes.to_numpy().T == "A=B", None, votes.to_numpy().T)
        for copied in (None, *range(len(plain))):
            panel = (
                plain
                if copied is None
                else np.vstack([plain[[copied]], plain[[copied]], np.delete(plain, copied, 0)])
            )
            found = judge(truth, panel, [] if copied is None else [0, 1])
            rows.append(
                found | {"order": int(order), "copied": None if copied is None else votes.columns[copied]}
            )
    return rows


def summary(rows: list[dict]) -> dict:
    """Return the means of what is defined, with the standard error of the first."""
    table = pd.DataFrame(rows).drop(columns=["learners", "copies", "c"])
    means = table.astype(float).mean()
    error = float(np.sqrt(means["inside"] * (1 - means["inside"]) / len(rows)))
    return {"n_panels": len(rows), **means.round(4).to_dict(), "inside_error": round(error, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=1200)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--judges", type=Path, help="judgebench.csv; left out by default")
    parser.add_argument("--out", type=Path, default=Path("results/coverage_of_consensus.json"))
    args = parser.parse_args()
    start = time.perf_counter()
    with ProcessPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(study, range(args.panels), chunksize=20))
    kinds = {
        "all": rows,
        "no copies": [r for r in rows if not r["copies"]],
        "copies": [r for r in rows if r["copies"]],
        "errors nearly independent (c < 0.1)": [r for r in rows if r["c"] < 0.1],
        "errors shared (c >= 0.1)": [r for r in rows if r["c"] >= 0.1],
        "3 or 4 learners": [r for r in rows if r["learners"] < 5],
        "more learners": [r for r in rows if r["learners"] >= 5],
    }
    record = {
        "config": {"learners": SIZES, "classes": CLASSES, "samples": SAMPLES, "copied": [0.85, 1]},
        "panels": {name: summary(some) for name, some in kinds.items()},
        "judgebench": [] if args.judges is None else real(args.judges),
        "seconds": time.perf_counter() - start,
        "versions": {
            "counterpoint": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    plain = json.loads(json.dumps(record, default=float).replace("NaN", "null"))
    args.out.write_text(json.dumps(plain, indent=1) + "\n")
    print(pd.DataFrame(record["panels"]).T.to_string())


if __name__ == "__main__":
    main()
