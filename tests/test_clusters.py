"""Sweeps on local clusters of Dask and Ray, where they are installed."""

import contextlib

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from counterpoint import DiverseEnsembleClassifier
from counterpoint.arena import arena
from counterpoint.arena.jobs import read_records
from counterpoint.arena.suite import read_suite

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@contextlib.contextmanager
def dask_cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield


@contextlib.contextmanager
def ray_cluster():
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


@pytest.mark.parametrize(("backend", "cluster"), [("dask", dask_cluster), ("ray", ray_cluster)])
def test_a_search_and_the_arena_run_on_a_cluster(backend, cluster, tmp_path):
    X, y = make_classification(120, 5, random_state=0)
    own = {"n_estimators": 3, "epochs": 3, "random_state": 0}
    search = GridSearchCV(DiverseEnsembleClassifier(**own), {"diversity": [0.0, 0.9]}, cv=2, n_jobs=2)
    labor = read_suite(["labor"])[0]
    methods = ["random-forest", "extra-trees"]
    with cluster(), parallel_config(backend=backend):
        search.fit(X, y)
        found = search.cv_results_["mean_test_score"]
        arena([labor], tmp_path / "cluster", methods=methods, smoke=True, n_jobs=2, device="cpu")
    with parallel_config(backend="sequential"):
        expected = search.fit(X, y).cv_results_["mean_test_score"]
        arena([labor], tmp_path / "here", methods=methods, smoke=True, device="cpu")
    np.testing.assert_allclose(found, expected)
    errors = [
        sorted(
            (record["name"], [fold["error"] for fold in record["data"]["folds"]])
            for record in read_records(path)
        )
        for path in (tmp_path / "cluster", tmp_path / "here")
    ]
    assert errors[0] == errors[1]
