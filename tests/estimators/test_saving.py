"""Files: without pickle, and ONNX."""

import json

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from torch import nn

from counterpoint.estimators import DiverseEnsembleClassifier, _onnx
from counterpoint.measures import combine
from counterpoint.training import CorrelationLoss, JointLoss, save_checkpoint


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def small(module=None, **more):
    settings = {
        "n_estimators": 3,
        "hidden_layer_sizes": (16,),
        "epochs": 10,
        "random_state": 0,
        "learning_rate": 0.01,
    }
    return DiverseEnsembleClassifier(module, **settings | more)


def make_net(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, n_classes))


NETS = [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))]


def vote_shares(model, X):
    proba, voting = model.vote_learners(X)
    return combine(proba, voting=voting)


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (None, {}),
        (None, {"loss": "independent", "standardize": False, "voting": "hard"}),
        (make_net, {"diversity": 0.9}),
        (NETS, {"loss": "ncl"}),
    ],
)
def test_what_is_saved_is_loaded(iris, tmp_path, module, settings):
    X, y = iris
    model = small(module, **settings).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model.safetensors", module=module)
    np.testing.assert_array_equal(loaded.learner_predict_proba(X), model.learner_predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.feature_names_in_.tolist() == list(X.columns)
    assert loaded.history_ == model.history_
    assert loaded.get_params()["diversity"] == model.diversity
    assert loaded.hidden_layer_sizes == (16,)
    assert loaded.partial_fit(X, y).score(X, y) > 0.5


def test_a_loss_of_ones_own_is_given_back_at_loading(iris, tmp_path):
    model = small(loss=CorrelationLoss(0.7)).fit(*iris)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model", loss=CorrelationLoss(0.7))
    assert loaded.loss.diversity == 0.7
    np.testing.assert_array_equal(loaded.predict(iris[0]), model.predict(iris[0]))


def test_without_its_own_loss_a_loaded_estimator_predicts_but_does_not_train(iris, tmp_path):
    X, y = iris
    model = small(loss=JointLoss(), epochs=2).fit(X, y)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    loaded.save(tmp_path / "again")
    for found in (loaded, clone(loaded), DiverseEnsembleClassifier.load(tmp_path / "again")):
        assert found.get_params()["loss"] is None
        for train in (found.fit, found.partial_fit):
            with pytest.raises(
                ValueError, match=r"`loss` must be a name or .* got None\. .* pass it to `load`"
            ):
                train(X, y)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    loaded.set_params(loss=JointLoss()).fit(X, y)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("seed", [7, np.int64(7)])
def test_a_seed_is_kept_and_a_generator_is_not(iris, tmp_path, seed):
    X, y = iris
    model = small(random_state=seed, epochs=2).fit(X, y)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    assert loaded.random_state == 7
    np.testing.assert_array_equal(loaded.fit(X, y).predict_proba(X), model.predict_proba(X))
    model.set_params(random_state=np.random.RandomState(7)).save(tmp_path / "model")
    assert DiverseEnsembleClassifier.load(tmp_path / "model").random_state is None


@pytest.mark.parametrize("weights", [None, "balanced", {"setosa": 2, "virginica": np.float64(0.5)}])
def test_the_weights_of_the_classes_are_kept(iris, tmp_path, weights):
    model = small(class_weight=weights, hidden_layer_sizes=4, epochs=2).fit(*iris)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    assert loaded.class_weight == weights
    assert loaded.hidden_layer_sizes == 4


def test_whole_numbers_stay_the_names_of_weighted_classes(tmp_path):
    X, y = load_iris(return_X_y=True)
    weights = {np.int64(0): 2, 1: 1, 2: 0.5}
    small(class_weight=weights, epochs=2).fit(X, y).save(tmp_path / "model")
    assert DiverseEnsembleClassifier.load(tmp_path / "model").class_weight == weights


def test_a_file_holds_no_code(iris, tmp_path):
    small(make_net).fit(*iris).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"`module` must be given, for networks of .*make_net; got None"):
        DiverseEnsembleClassifier.load(tmp_path / "model")
    with pytest.raises(ValueError, match="`module` must return networks like those that were saved"):
        DiverseEnsembleClassifier.load(tmp_path / "model", module=nn.Linear)
    with pytest.raises(ValueError, match="`module` must hold 3 networks, as the file does; got 2"):
        DiverseEnsembleClassifier.load(tmp_path / "model", module=NETS)
    save_checkpoint(tmp_path / "other", {"epoch": 3})
    with pytest.raises(ValueError, match="`path` must be a file that `save` wrote"):
        DiverseEnsembleClassifier.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (None, {}),
        (None, {"voting": "hard", "standardize": False}),
        (NETS, {"loss": "independent"}),
        (make_net, {"diversity": 0.9}),
    ],
)
def test_an_onnx_file_says_what_the_estimator_says(iris, tmp_path, module, settings):
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    X, y = iris
    model = small(module, **settings).fit(X, y)
    path = tmp_path / "deep" / "model.onnx"
    model.to_onnx(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"features": X.to_numpy(dtype=np.float32)})
    np.testing.assert_allclose(found, vote_shares(model, X), atol=1e-4)
    props = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(props["classes"]) == ["setosa", "versicolor", "virginica"]
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.onnx"]


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_features_far_from_zero_go_to_onnx_if_float32_can_hold_them(tmp_path, voting):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    far = np.random.default_rng(0).normal(size=(300, 2))
    labels = (far[:, 0] > 0).astype(int)
    path = tmp_path / "model.onnx"
    # float32 holds 24 bits: steps of 1/8 at 2e6, and of 128 at 1.7e9
    near = np.float32(far * [50, 1] + [2e6, 0])
    model = small(epochs=40, voting=voting).fit(near.astype(np.float64), labels)
    model.to_onnx(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"features": near})
    np.testing.assert_allclose(found, vote_shares(model, near.astype(np.float64)), atol=1e-4)
    path.unlink()
    model = small(epochs=40, voting=voting).fit(far * [50, 1] + [1.7e9, 0], labels)
    with pytest.raises(
        ValueError, match=r"float32, the input of the file, .*; got feature 0 with mean 1\.7e\+09"
    ):
        model.to_onnx(path)
    assert not path.exists()


def test_a_file_that_says_otherwise_is_not_written(iris, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model = small(epochs=2).fit(*iris)
    twin = small(epochs=2, random_state=1).fit(*iris)
    monkeypatch.setattr(_onnx, "_Deployed", lambda _, encoding, made=_onnx._Deployed: made(twin, encoding))
    with pytest.raises(RuntimeError, match="must agree with the estimator"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


def test_a_binary_net_with_one_logit_goes_to_onnx(iris, tmp_path):
    pytest.importorskip("onnx")
    X, y = iris[0][:100], iris[1][:100]
    nets = [nn.Linear(4, 1), nn.Linear(4, 1)]
    model = small(nets, loss="correlation", epochs=40, learning_rate=0.1).fit(X, y)
    model.to_onnx(tmp_path / "model.onnx")  # which holds the file against the estimator
    (width,) = {net(torch.zeros(1, 4)).shape[1] for net in model.estimators_}
    assert width == 2


class Branching(nn.Linear):
    """Go by the numbers, which a file cannot."""

    def forward(self, x):
        return super().forward(x) if x.sum() > -1e9 else x


def test_what_torch_says_of_a_net_that_goes_to_onnx_is_heard(iris, tmp_path):
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    model = small([Branching(4, 3)]).fit(*iris)
    with pytest.warns(torch.jit.TracerWarning, match="might cause the trace to be incorrect"):
        model.to_onnx(tmp_path / "model.onnx")


def test_an_onnx_file_is_written_to_a_path(iris):
    with pytest.raises(TypeError, match=r"^`path` must be the path of a file; got 3\.$"):
        small(epochs=1).fit(*iris).to_onnx(3)


def test_a_folder_is_no_file_to_write_to(iris, tmp_path, monkeypatch):
    model = small(epochs=1).fit(*iris)
    monkeypatch.setattr(torch.onnx, "export", None)  # it is refused before that
    for write in (model.save, model.to_onnx):
        with pytest.raises(ValueError, match="`path` must be the path of a file; got the folder"):
            write(tmp_path)


def test_a_loaded_estimator_knows_how_many_networks_it_has(iris, tmp_path):
    model = small(epochs=1).fit(*iris)
    model.set_params(n_estimators=5).save(tmp_path / "model.safetensors")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="`n_estimators` must stay 3 when training continues; got 5"):
        loaded.partial_fit(*iris)
