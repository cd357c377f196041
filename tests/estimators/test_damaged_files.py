"""The file of an estimator that is damaged or was tampered with is one sentence, and takes no memory."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

from counterpoint._files import seal
from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleRegressor
from counterpoint.training import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "c": ["x", "y", "z", "z"] * 10})
    X.loc[3, "a"] = np.nan
    y = np.where(X["b"] > 0, "yes", "no")
    folder = tmp_path_factory.mktemp("saved")
    settings = {"n_estimators": 2, "hidden_layer_sizes": (4,), "epochs": 2, "random_state": 0}
    DiverseEnsembleClassifier(**settings, loss="correlation").fit(X, y).save(folder / "classifier")
    DiverseEnsembleRegressor(**settings).fit(X, X["b"]).save(folder / "regressor")
    return folder


CLASSES = {"classifier": DiverseEnsembleClassifier, "regressor": DiverseEnsembleRegressor}


@pytest.mark.parametrize("kind", CLASSES)
def test_one_flipped_bit_is_recognised(saved, tmp_path, kind):
    content = (saved / kind).read_bytes()
    for bit in np.random.default_rng(0).choice(8 * len(content), 150, replace=False).tolist():
        broken = bytearray(content)
        broken[bit // 8] ^= 1 << bit % 8
        (tmp_path / "file").write_bytes(broken)
        with pytest.raises(ValueError, match=r"^`path` must be a checkpoint.*\.$"):
            CLASSES[kind].load(tmp_path / "file")


def places(state, path=()):
    """Yield the place of everything in a nested state."""
    items = (
        state.items()
        if isinstance(state, dict)
        else enumerate(state)
        if isinstance(state, list | tuple)
        else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(state, place, value):
    """Return the state with another value at a place, or without it."""
    found = copy.deepcopy(state)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    if value is KeyError:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return found


OTHERS = [
    KeyError,
    None,
    True,
    -1,
    10**6,
    10**12,
    1e300,
    "text",
    "<U1000000000",
    [],
    {},
    [[1]],
    torch.ones(3),
    "inf",
]


def check_changes(saved, path, kind, most):
    state = load_checkpoint(saved / kind)
    changes = [(place, other) for place in places(state) for other in OTHERS]
    if most < len(changes):
        chosen = np.random.default_rng(0).choice(len(changes), most, replace=False)
        changes = [changes[index] for index in chosen]
    strange, refused = [], 0
    for place, other in changes:
        try:
            save_checkpoint(path, changed(state, place, other))
        except TypeError:  # an entry of a tuple
            continue
        try:
            CLASSES[kind].load(path)
        except ValueError as error:
            refused += 1
            if len(str(error)) > 600:
                strange.append((place, other, str(error)[:100]))
        except Exception as error:
            strange.append((place, other, repr(error)[:200]))
    assert strange == []
    assert refused > len(changes) / 3


@pytest.mark.parametrize("kind", CLASSES)
def test_whatever_is_changed_is_accepted_or_one_sentence(saved, tmp_path, kind):
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_changes(saved, tmp_path / "file", kind, 60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
def test_every_change_is_accepted_or_one_sentence(saved, tmp_path, kind):
    check_changes(saved, tmp_path / "file", kind, 10**6)


def test_networks_larger_than_those_of_the_file_are_refused_before_they_are_made(saved, tmp_path):
    state = load_checkpoint(saved / "classifier")
    state["parameters"]["hidden_layer_sizes"] = (40_000, 40_000)
    save_checkpoint(tmp_path / "file", state)
    with pytest.raises(ValueError, match="whose parts do not fit together"):
        DiverseEnsembleClassifier.load(tmp_path / "file")


def test_one_tensor_does_not_make_up_for_many(saved, tmp_path):
    raw = (saved / "classifier").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    state = json.loads(header["__metadata__"]["counterpoint"])
    again = {"kind": "tensor", "name": "w", "channels_last": False}  # one tensor for all
    state["learners"] = [{"0.weight": again}] * 50
    metadata = {"counterpoint": json.dumps(state), "version": "2", "sha256": "0" * 64}
    tensors = load(raw) | {"w": torch.zeros(100_000)}
    (tmp_path / "file").write_bytes(seal(save(tensors, metadata=metadata)))
    with pytest.raises(ValueError, match="in which the learners have more weights than the file"):
        DiverseEnsembleClassifier.load(tmp_path / "file")


def test_an_unknown_format_is_refused_in_one_sentence(saved, tmp_path):
    save_checkpoint(tmp_path / "file", load_checkpoint(saved / "classifier") | {"format": 3})
    with pytest.raises(
        ValueError, match=r"^`path` must be a file that `save` wrote, of format 2; got .* 3\.$"
    ):
        DiverseEnsembleClassifier.load(tmp_path / "file")
