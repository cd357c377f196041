"""A damaged or foreign checkpoint is recognised; the one before takes its place."""

import json
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file
from torch import nn

from counterpoint._files import seal
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    Readout,
    calibrate,
    fit,
    load_checkpoint,
    save_checkpoint,
)

pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")


def networks(activation=nn.Tanh, p=0.1):
    torch.manual_seed(1)
    return Ensemble(
        [nn.Sequential(nn.Linear(2, 4), activation(), nn.Dropout(p), nn.Linear(4, 2)) for _ in range(3)]
    )


def train(path, ensemble=None, epochs=3, loss=None, **changes):
    ensemble = networks() if ensemble is None else ensemble
    torch.manual_seed(0)
    x = torch.randn(40, 2)
    options = {
        "loss": DiversityLoss() if loss is None else loss,
        "optimizer": lambda p: torch.optim.Adam(p, lr=0.05),
        "checkpoint": path,
        "resume": True,
        "progress": False,
    }
    return fit(ensemble, [(x, (x[:, 0] > 0).long())], epochs=epochs, **(options | changes))


def flipped(content, bit):
    broken = bytearray(content)
    broken[bit // 8] ^= 1 << bit % 8
    return bytes(broken)


def sealed(state, tensors, version="2"):
    """Return a file as somebody would write it who knows about the checksum."""
    metadata = {"counterpoint": json.dumps(state), "version": version, "sha256": "0" * 64}
    return seal(save(tensors, metadata=metadata))


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_one_flipped_bit_anywhere_is_recognised(tmp_path, step):
    path = tmp_path / "run"
    save_checkpoint(path, {"epoch": 3, "weights": {"a": torch.randn(20), "b": torch.arange(5)}, "t": (1, 2)})
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), step):  # every position in a byte, since the step is odd
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(ValueError, match=r"^`path` must be a checkpoint.*\.$"):
            load_checkpoint(path)
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^`path` must be a checkpoint.*\.$"):
            load_checkpoint(path)


def test_a_damaged_checkpoint_gives_way_to_the_one_before_with_a_warning(tmp_path):
    whole, parts, again = networks(), networks(), networks()
    train(None, whole, epochs=4)
    path = tmp_path / "run"
    train(path, parts, epochs=3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run", "run.previous"]
    path.write_bytes(flipped(path.read_bytes(), 4000))
    with pytest.warns(
        UserWarning, match=r"which is damaged or something else\. The one before was used\.$"
    ) as told:
        history = train(path, again, epochs=4)
    assert told[0].filename == __file__  # the call of fit
    assert len(history) == 4
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    load_checkpoint(path)
    load_checkpoint(tmp_path / "run.previous")


def test_two_damaged_checkpoints_are_one_sentence(tmp_path):
    train(tmp_path / "run")
    for name in ("run", "run.previous"):
        (tmp_path / name).write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match=r"^`path` must be a checkpoint; got '.*run', which is damaged.*\.$"):
        train(tmp_path / "run")


def test_the_previous_checkpoint_of_another_run_is_not_used(tmp_path):
    train(tmp_path / "run", epochs=3)
    (tmp_path / "run").unlink()
    train(tmp_path / "run", epochs=1, callbacks=[])
    assert len(load_checkpoint(tmp_path / "run.previous")["history"]["epochs"]) == 0


@pytest.mark.parametrize("version", ["3", "1", "new"])
def test_an_unknown_version_is_refused_in_one_sentence(tmp_path, version):
    (tmp_path / "run").write_bytes(sealed({}, {}, version))
    message = rf"^`path` must be a checkpoint of format 2; got '.*run', of format {version}\. A newer"
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path / "run")


def test_a_file_without_a_checksum_is_damaged(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "run", metadata={"counterpoint": '{"epoch": 3}'})
    with pytest.raises(ValueError, match="which is damaged or something else"):
        load_checkpoint(tmp_path / "run")


@pytest.mark.parametrize(
    "state",
    [
        [],
        "text",
        {"a": {"kind": "tensor", "name": "b", "channels_last": False}},
        {"a": {"kind": "tensor"}},
        {"a": {"kind": "tuple", "entries": 3}},
        {"a": {"kind": "mapping", "entries": [[[], 1]]}},
        {"a": {"kind": [], "entries": [1]}},
    ],
)
def test_content_that_does_not_fit_the_format_is_one_sentence(tmp_path, state):
    (tmp_path / "run").write_bytes(sealed(state, {"w": torch.ones(1)}))
    with pytest.raises(ValueError, match=r"^`path` must be a checkpoint; got '.*', which is damaged.*\.$"):
        load_checkpoint(tmp_path / "run")


@pytest.mark.parametrize("depth", [5_000, 200_000])
def test_deep_nesting_is_one_sentence(tmp_path, depth):
    metadata = {"counterpoint": "[" * depth + "]" * depth, "version": "2", "sha256": "0" * 64}
    (tmp_path / "run").write_bytes(seal(save({}, metadata=metadata)))
    with pytest.raises(ValueError, match="which is damaged"):
        load_checkpoint(tmp_path / "run")


OTHERS = (7, {"epochs": 1, "best_epoch": 9}, None, "text", [], {}, [None], torch.ones(2))


@pytest.mark.parametrize("others", [OTHERS[:2], pytest.param(OTHERS[2:], marks=pytest.mark.slow)])
def test_every_part_that_is_missing_or_of_another_kind_is_one_sentence(tmp_path, others):
    path = tmp_path / "run"
    train(path, loss=CorrelationLoss(0.5), scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1))
    state = load_checkpoint(path)
    bad = [{key: value for key, value in state.items() if key != part} for part in state]
    for part in state:
        bad += [state | {part: other} for other in others if not (part == "best" and other == {})]
    errors = []
    for one in bad:
        save_checkpoint(path, one)
        (tmp_path / "run.previous").unlink(missing_ok=True)
        try:
            train(path, loss=CorrelationLoss(0.5), scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1))
        except ValueError as error:  # the only one that is allowed; a few may be accepted
            errors.append(str(error))
    assert all(error.startswith("`checkpoint` must be") for error in errors)
    assert max(map(len, errors)) < 500 + len(str(path))
    assert len(errors) > 0.9 * len(bad)


def test_tanh_does_not_resume_as_relu_nor_one_rate_of_dropout_as_another(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(ValueError, match=r"same architecture \(body.layers.1: ReLU\(\) here, Tanh\(\) there"):
        train(tmp_path / "run", networks(nn.ReLU), epochs=4)
    with pytest.raises(ValueError, match=r"same architecture \(body.layers.2.*: .*p=0.5.* here"):
        train(tmp_path / "run", networks(p=0.5), epochs=4)


@pytest.mark.parametrize("compiled_first", [True, False])
@pytest.mark.filterwarnings("ignore")  # of torch's compiler
def test_a_compiled_ensemble_resumes_a_plain_checkpoint_and_the_other_way_round(tmp_path, compiled_first):
    plain, inner = networks(p=0.0), networks(p=0.0)
    compiled = torch.compile(inner, backend="eager")
    first, second = (compiled, plain) if compiled_first else (plain, compiled)
    train(tmp_path / "run", first, epochs=2)
    assert len(train(tmp_path / "run", second, epochs=3)) == 3
    whole = networks(p=0.0)
    train(None, whole, epochs=3)
    trained = plain if compiled_first else inner
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], value)


class Odd(nn.Module):
    """A network that cannot be stacked."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("make", [Odd, lambda: nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2))])
@pytest.mark.filterwarnings("ignore")  # of torch's compiler
def test_learners_compiled_one_by_one_resume_a_plain_checkpoint_and_the_other_way_round(tmp_path, make):
    def learners(compiled):
        torch.manual_seed(1)
        nets = [make() for _ in range(3)]
        return Ensemble([torch.compile(net, backend="eager") for net in nets] if compiled else nets)

    whole = learners(False)
    train(None, whole, epochs=4)
    runs = learners(False), learners(True), learners(False)
    for epochs, ensemble in enumerate(runs, 2):
        assert len(train(tmp_path / "run", ensemble, epochs=epochs)) == epochs
    assert runs[1].state_dict().keys() == whole.state_dict().keys()
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(runs[-1].state_dict()[name], value)


@pytest.mark.parametrize("validates", [True, False])
def test_the_checkpoint_of_a_finished_run_holds_the_readout(tmp_path, validates):
    x = torch.randn(30, 2)
    own = {"validation": [(x, (x[:, 1] > 0).long())]} if validates else {}
    ensemble, other = networks(), networks()
    train(tmp_path / "run", ensemble, loss=CorrelationLoss(0.5), **own)
    assert ensemble.readout is not None
    saved = load_checkpoint(tmp_path / "run")
    other.load_state_dict(saved["best"] or saved["ensemble"])
    other.readout = Readout(**saved["readout"])
    assert torch.equal(other.predict_proba(x), ensemble.predict_proba(x))


def test_a_finished_run_with_a_readout_can_go_on(tmp_path):
    whole, parts = networks(), networks()
    train(None, whole, epochs=5, loss=CorrelationLoss(0.5))
    train(tmp_path / "run", parts, epochs=2, loss=CorrelationLoss(0.5))
    train(tmp_path / "run", parts, epochs=5, loss=CorrelationLoss(0.5))
    for name, value in whole.state_dict().items():
        assert torch.equal(parts.state_dict()[name], value)


def test_safetensors_takes_the_state_of_a_calibrated_ensemble(tmp_path):
    ensemble = networks()
    x = torch.randn(30, 2)
    calibrate(ensemble, [(x, (x[:, 0] > 0).long())], decode=True)
    save_file(dict(ensemble.state_dict()), tmp_path / "state")
    assert all(value.is_contiguous() for value in ensemble.state_dict().values())


def test_a_pipe_or_a_device_is_no_checkpoint(tmp_path):
    import os

    if os.name != "posix":
        pytest.skip("needs pipes with names")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("endless", "a device")):
        with pytest.raises(ValueError, match=f"must be a file; it is {kind}"):
            load_checkpoint(tmp_path / name)


def test_a_file_as_long_as_it_says_is_read_and_a_hole_is_not(tmp_path):
    with (tmp_path / "run").open("wb") as file:
        file.write(save({}, metadata={"counterpoint": "{}"}))
        file.truncate(2**40)  # takes no room on the disk
    with pytest.raises(ValueError, match="which is damaged"):
        load_checkpoint(tmp_path / "run")


def test_a_whole_checkpoint_gives_no_warning(tmp_path):
    train(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(tmp_path / "run", epochs=4)
    assert np.isfinite(load_checkpoint(tmp_path / "run")["history"]["epochs"][-1]["loss"])


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (lambda stride: nn.Conv2d(1, 2, 3, stride=stride, padding=1), (1, 2)),
        (
            lambda eps: nn.Sequential(nn.Flatten(), nn.LayerNorm(16, eps=eps), nn.Unflatten(1, (1, 4, 4))),
            (1e-5, 0.1),
        ),
        (lambda momentum: nn.BatchNorm2d(1, momentum=momentum), (0.1, 0.5)),
    ],
)
def test_the_identity_tells_layers_of_equal_tensors_apart(make, changed):
    from types import SimpleNamespace

    from counterpoint.training.identity import run_identity

    def layers(setting):
        ensemble = Ensemble([make(setting) for _ in range(2)])
        optimizer = torch.optim.SGD(ensemble.parameters())
        return run_identity(
            SimpleNamespace(ensemble=ensemble, optimizer=optimizer, loss=None, scheduler=None)
        )

    first, second = map(layers, changed)
    assert first["tensors"] == second["tensors"]
    assert first["layers"] != second["layers"]
