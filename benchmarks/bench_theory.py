"""Time the vote accuracy on a grid, on one core: ``python benchmarks/bench_theory.py``.

The target is a grid of 1000 x 1000 correlations at 15 learners in under two seconds. Beside it stands the plain way
to compute the same model: one adaptive quadrature a point, timed on a sample of the points.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import scipy
from scipy import integrate, optimize, special, stats
from threadpoolctl import threadpool_limits

from counterpoint import __version__
from counterpoint.theory import error_correlation, vote_accuracy

N_LEARNERS = 15


def plain(r_tl: float, r_ll: float) -> float:
    """Compute the one-factor probit as a textbook writes it."""
    p, c = (1 + r_tl) / 2, error_correlation(r_tl, r_ll)
    t = special.ndtri(p)

    def excess(rho: float) -> float:
        both = stats.multivariate_normal.cdf([t, t], cov=[[1, rho], [rho, 1]])
        return float(both - p**2 - c * p * (1 - p))

    rho = optimize.brentq(excess, 0.0, 1 - 1e-9)

    def integrand(f: float) -> float:
        given = special.ndtr((t - np.sqrt(rho) * f) / np.sqrt(1 - rho))
        return float(stats.binom.sf(N_LEARNERS // 2, N_LEARNERS, given) * stats.norm.pdf(f))

    return integrate.quad(integrand, -8, 8)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/bench_theory.json"))
    out = parser.parse_args().out
    r_tl, r_ll = np.linspace(0.0, 0.5, 1000)[:, None], np.linspace(0.3, 0.99, 1000)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        with threadpool_limits(1):
            grid = vote_accuracy(r_tl, r_ll, N_LEARNERS)
        times.append(time.perf_counter() - start)
    rng = np.random.default_rng(0)
    places = rng.integers(0, 1000, (40, 2))
    start = time.perf_counter()
    reference = np.array([plain(r_tl[i, 0], r_ll[j]) for i, j in places])
    per_point = (time.perf_counter() - start) / len(places)
    result = {
        "config": {"grid": [1000, 1000], "n_learners": N_LEARNERS, "threads": 1, "repeats": len(times)},
        "seconds": {"mean": np.mean(times), "sd": np.std(times, ddof=1), "n": len(times)},
        "plain_seconds_per_point": per_point,
        "ratio_to_plain": per_point * grid.size / np.mean(times),
        "largest_difference_to_plain": np.abs(reference - grid[places[:, 0], places[:, 1]]).max(),
        "versions": {
            "counterpoint": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
        "device": f"{platform.machine()} CPU, one thread",
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2, default=float) + "\n")
    print(json.dumps(result, indent=2, default=float))


if __name__ == "__main__":
    main()
