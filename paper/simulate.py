r"""Random votes with a given accuracy and error correlation.

Learner :math:`i` is right when its Gaussian :math:`Z_i` lies under :math:`t = \Phi^{-1}(p)`; the Gaussians
have one common correlation :math:`\rho`, which may be as low as :math:`-1/(N-1)`.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri, roots_legendre


def latent_correlation(p: float, c: float, n_learners: int) -> float:
    r"""Return the correlation of the Gaussians under which being right correlates by ``c``.

    It solves :math:`c\,p(1-p) = \frac{1}{2\pi} \int_0^{\arcsin\rho} e^{-t^2/(1 + \sin\theta)} d\theta`
    (Plackett). NaN if no exchangeable Gaussians have so low a ``c``.
    """
    if p in (0.0, 1.0) or c >= 1:
        return 1.0
    t = ndtri(p)
    nodes, weights = roots_legendre(48)

    def excess(angle: float) -> float:
        theta = angle * (1 + nodes) / 2
        density = np.exp(-(t**2) / (1 + np.sin(theta))) / (2 * np.pi)
        return float(angle / 2 * (weights @ density) - c * p * (1 - p))

    least, most = -np.arcsin(1 / (n_learners - 1)), np.pi / 2
    if excess(least) > 0:
        return float("nan")
    return float(np.sin(brentq(excess, least, most, xtol=1e-12)))


def draw_correct(
    p: float, rho: float, n_learners: int, n_samples: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return True where a learner is right on a sample, ``(n_learners, n_samples)``."""
    own = rng.standard_normal((n_learners, n_samples))
    mean = own.mean(axis=0)
    # Variance 1 and correlation rho, for every rho from -1/(N-1) to 1.
    shared = np.sqrt(max(1 + (n_learners - 1) * rho, 0.0))
    correct: NDArray[np.bool_] = np.sqrt(1 - rho) * (own - mean) + shared * mean < ndtri(p)
    return correct
