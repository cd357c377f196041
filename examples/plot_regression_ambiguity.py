"""
Regression: the mean is better than its learners by their spread
================================================================

The squared error of the mean is the mean squared error of the learners less their *ambiguity*, the spread around the
mean.
"""

# %%
# Eight small networks learn a wave, once independently (dial 0) and once as a team (dial 0.9).

import matplotlib.pyplot as plt
import numpy as np

from counterpoint import DiverseEnsembleRegressor
from counterpoint.assessment import assess_regression

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (300, 1))
y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=300)
X_test = np.linspace(-3, 3, 200)[:, None]
y_test = np.sin(2 * X_test[:, 0])

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
for ax, dial in zip(axes, (0.0, 0.9), strict=True):
    model = DiverseEnsembleRegressor(
        n_estimators=8,
        hidden_layer_sizes=(3,),
        diversity=dial,
        epochs=60,
        weight_decay=0.01,
        learning_rate=0.05,
        early_stopping=False,
        n_pieces=0,
        random_state=0,
    ).fit(X, y)
    learners = model.learner_predict(X_test)
    errors = assess_regression(y_test, learners).errors
    ax.plot(X_test, learners.T, color="tab:blue", alpha=0.4, lw=1)
    ax.plot(X_test, model.predict(X_test), color="tab:red", lw=2.5, label="their mean")
    ax.plot(X_test, y_test, color="black", ls="--", label="truth")
    ax.set_title(
        f"dial {dial:g}: {errors.average_error:.3f} - {errors.ambiguity:.3f} = {errors.ensemble_error:.3f}"
    )
    ax.set_ylim(-3, 3)
axes[0].legend(loc="lower right")
plt.show()

# %%
# The titles are the decomposition: error of a learner on average, less the ambiguity, is the error of the mean.
