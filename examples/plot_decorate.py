"""
DECORATE: diversity by made-up examples
=======================================

``DecorateClassifier`` gives each tree artificial rows that are labelled against the trees before it. It was made for
small tables.
"""

# %%
# Three small tables, cross-validated: one tree and fifteen trees of DECORATE. Every line is a fold.

import matplotlib.pyplot as plt
from sklearn.model_selection import StratifiedKFold, cross_val_score

from counterpoint import DecorateClassifier, datasets

folds = StratifiedKFold(5, shuffle=True, random_state=0)
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", sharey=True)
for ax, name in zip(axes, ("labor", "iris", "glass"), strict=True):
    table = datasets.load(name)
    one, many = (
        cross_val_score(DecorateClassifier(n_estimators=n, random_state=0), table.X, table.y, cv=folds)
        for n in (1, 15)
    )
    ax.plot([0, 1], [one, many], "o-", color="tab:blue", alpha=0.35)
    ax.plot([0, 1], [one.mean(), many.mean()], "o-", color="tab:red", lw=2.5, label="mean")
    ax.set_xticks([0, 1], ["one tree", "DECORATE"])
    ax.set_xlim(-0.3, 1.3)
    ax.set_title(f"{name}: {one.mean():.1%} to {many.mean():.1%}")
axes[0].set_ylabel("Accuracy on the fold")
axes[0].legend(loc="lower right")
plt.show()
