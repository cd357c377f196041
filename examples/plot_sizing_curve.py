"""
How many learners are enough?
=============================

The accuracy of a vote rises quickly with the first learners and then hardly at all. The curve tells when to stop.
"""

# %%
# A forest of 21 small trees reads digits. The markers are votes of some of its trees, averaged over which ones. The
# line is predicted for more trees like these from a mixture of easy and hard digits, in its 95% interval.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from counterpoint import assess_estimator
from counterpoint.plots import VoteCurveDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestClassifier(21, max_depth=6, random_state=0).fit(X_train, y_train)
assessment = assess_estimator(forest, X_test, y_test)

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
VoteCurveDisplay.from_assessment(assessment, ax=ax)
plt.show()

# %%
# The same in words:

print(next(finding.text for finding in assessment.findings if finding.code == "more_learners"))
