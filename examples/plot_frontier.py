"""
The cheapest panel that votes as well
=====================================

``select`` chooses the learners of a pool that are worth their cost. The frontier shows what a smaller budget would
lose.
"""

# %%
# Eight models read digits. Their cost is what a prediction costs, in some unit of your own.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from counterpoint import select
from counterpoint.plots import FrontierDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=150, random_state=0)
pool = {f"tree {depth}": (DecisionTreeClassifier(max_depth=depth, random_state=0), 1) for depth in (3, 5, 8)}
pool |= {f"forest of {n}": (RandomForestClassifier(n, random_state=0), n) for n in (3, 9)}
pool |= {
    "naive Bayes": (GaussianNB(), 2),
    "logistic": (LogisticRegression(C=1e-3, max_iter=2000), 8),
    "neighbours": (KNeighborsClassifier(9), 5),
}
answers = {name: model.fit(X_train, y_train).predict(X_test) for name, (model, _) in pool.items()}
chosen = select(y_test, answers, costs={name: cost for name, (_, cost) in pool.items()})
print(chosen)

# %%
# Every accuracy was measured on samples that did not choose the panel.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
FrontierDisplay.from_selection(chosen, ax=ax)
plt.show()
