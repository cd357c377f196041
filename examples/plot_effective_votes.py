"""
What is a panel worth?
======================

Six judges who make the same mistakes are worth fewer than six. Two panels of equally good judges show it.
"""

# %%
# In the first panel every judge errs independently. In the second the judges share a view of how hard an item is.

import matplotlib.pyplot as plt
import numpy as np

from counterpoint import assess
from counterpoint.plots import EffectiveVotesDisplay

rng = np.random.default_rng(0)
truth = rng.integers(0, 2, 500)


def panel(shared):
    """Return the answers of six judges who are right on 70 % of the items on average."""
    difficulty = np.sqrt(shared) * rng.normal(size=500) + np.sqrt(1 - shared) * rng.normal(size=(6, 500))
    return np.where(difficulty < 0.524, truth, 1 - truth)


panels = {"each on its own": panel(shared=0.0), "of one mind": panel(shared=0.6)}
figure, axes = plt.subplots(2, 1, figsize=(7, 7), layout="constrained")
for ax, (name, answers) in zip(axes, panels.items(), strict=True):
    assessment = assess(truth, answers, name=name)
    print(f"{name}: {assessment.verdict}\n")
    EffectiveVotesDisplay.from_assessment(assessment, noun="judges", ax=ax)
plt.show()
