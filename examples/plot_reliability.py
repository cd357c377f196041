"""
Can the confidence of a vote be believed?
=========================================

A vote that says 90 % should be right on 90 % of such samples. The reliability diagram shows whether it is.
"""

# %%
# The same ten networks vote in two ways: by the mean of their probabilities and by the geometric mean.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from counterpoint import DiverseEnsembleClassifier, assess
from counterpoint.plots import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=300, random_state=0)
model = DiverseEnsembleClassifier(
    n_estimators=10,
    hidden_layer_sizes=(6,),
    loss="independent",
    epochs=40,
    learning_rate=0.02,
    early_stopping=False,
    n_pieces=0,
    random_state=0,
).fit(X_train, y_train)
proba = model.learner_predict_proba(X_test)  # (networks, samples, classes)

figure, axes = plt.subplots(1, 2, figsize=(10, 6), gridspec_kw={"wspace": 0.35})
for ax, voting in zip(axes, ("soft", "geometric"), strict=True):
    assessment = assess(y_test, proba, voting=voting, name=f"{voting} vote")
    ReliabilityDisplay.from_assessment(assessment, ax=ax)
plt.show()

# %%
# Marks above the line belong to a vote that is too modest, marks below it to one that is too sure of itself.
