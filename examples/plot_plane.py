"""
Ensembles on the plane of accuracy and diversity
================================================

Every ensemble is a point: up is accurate, left is different. No ensemble lies above the red curve, the bound of
Theorem 2.
"""

# %%
# Four ensembles of fifteen trees learn one half of the digits and are measured on the other half.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

from counterpoint import assess_estimator
from counterpoint.plots import TradeoffDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
ensembles = {
    "bagging": BaggingClassifier(n_estimators=15, random_state=0),
    "random forest": RandomForestClassifier(15, random_state=0),
    "shallow forest": RandomForestClassifier(15, max_depth=5, random_state=0),
    "extra trees": ExtraTreesClassifier(15, max_features=1, random_state=0),
}
for ensemble in ensembles.values():
    ensemble.fit(X_train, y_train)

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
TradeoffDisplay.from_estimator(ensembles, X_test, y_test, ax=ax)
plt.show()

# %%
# Trees that differ more lie further left. Whether the vote gains depends on how far they fall at the same time:

for name, ensemble in ensembles.items():
    assessment = assess_estimator(ensemble, X_test, y_test, name=name)
    mean = assessment.votes.accuracies.mean()
    print(f"{name:<15}a tree is right on {mean:.0%}, the vote on {assessment.vote.value:.0%}")
