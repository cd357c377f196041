"""
Does diversity pay on my data?
==============================

``DiverseEnsembleClassifierCV`` compares dials with independent training on the same folds and says whether the
difference is real.
"""

# %%
# Networks of one hidden unit are far too small for seven classes, so there is something to gain.

import matplotlib.pyplot as plt

from counterpoint import DiverseEnsembleClassifierCV, datasets

segment = datasets.load("segment")
X, y = segment.X.to_numpy()[::7], segment.y[::7]
search = DiverseEnsembleClassifierCV(
    n_estimators=9,
    hidden_layer_sizes=(1,),
    diversities=(0.25, 0.5, 0.75, 1.0),
    weight_decay=0.1,
    epochs=15,
    learning_rate=0.05,
    n_pieces=0,
    cv=10,
    random_state=1,
).fit(X, y)
print(search.verdict_)

# %%
# A bar that lies wholly above the line of independent training leads by more than its standard error.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
search.plot_path(ax=ax)
plt.show()
