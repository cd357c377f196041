"""
Which models are alike?
=======================

The correlation matrix of truth and learners puts similar learners side by side. A dark block votes as one.
"""

# %%
# Seven models learn from 200 images of digits. Three of them are trees.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from counterpoint import assess
from counterpoint.plots import CorrelationDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=200, random_state=0)
models = {
    "tree": DecisionTreeClassifier(random_state=0),
    "tree by entropy": DecisionTreeClassifier(criterion="entropy", random_state=0),
    "extra trees": ExtraTreesClassifier(20, random_state=0),
    "neighbours": KNeighborsClassifier(),
    "logistic": LogisticRegression(C=1e-3, max_iter=2000),
    "discriminant": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    "naive Bayes": GaussianNB(),
}
answers = {name: model.fit(X_train, y_train).predict(X_test) for name, model in models.items()}
assessment = assess(y_test, answers)

figure, ax = plt.subplots(figsize=(7, 6), layout="constrained")
CorrelationDisplay.from_assessment(assessment, ax=ax)
plt.show()

# %%
# What each of them brings to the vote:

print(assessment)
