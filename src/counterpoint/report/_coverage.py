"""Who answered what, for ensembles with missing votes."""

from typing import Any

import numpy as np

from counterpoint.assessment import Assessment
from counterpoint.report._words import percent, shorten

__all__ = ["coverage"]

_MOST_ROWS = 12


def coverage(a: Assessment) -> dict[str, Any] | None:
    """Return the answers of learners and samples in words and rows, or None if every learner answered everything."""
    found = a.coverage
    if found.complete:
        return None
    order = np.argsort(found.answered, kind="stable")[:_MOST_ROWS].tolist()
    return {
        "lead": f"{percent(found.share)} of the votes were cast: {found.mean_voters:.1f} of {a.n_learners:,} on an "
        "average sample that has votes. The vote is that of those who voted, and each learner is judged on what it "
        "answered.",
        "samples": [
            ("Answered by all learners", f"{found.voters[-1]:,}"),
            ("By some of them", f"{found.voters[1:-1].sum():,}"),
            ("By none, neither right nor wrong", f"{found.voters[0]:,}"),
            ("Tied votes, shared by the tied classes", f"{found.tied:,}"),
            *_fewest_shared(a),
        ],
        "learners": [
            (
                a.learners[i],
                percent(found.answered[i] / a.n_samples),
                percent(a.accuracies[i]),
                percent(found.vote_on[i]),
            )
            for i in order
        ],
        "left_out": a.n_learners - len(order),
    }


def _fewest_shared(a: Assessment) -> list[tuple[str, str]]:
    if a.n_learners < 2:
        return []
    apart = np.where(np.eye(a.n_learners, dtype=bool), a.n_samples + 1, a.coverage.shared)
    i, j = (shorten(a.learners[k], 24) for k in np.unravel_index(np.argmin(apart), apart.shape))
    return [(f"Fewest shared by two learners, {i} and {j}", f"{apart.min():,}")]
