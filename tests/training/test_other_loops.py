"""The loops of Lightning, accelerate and skorch on docs/scale.md train and predict as fit does."""

import contextlib
import io
import logging
import re
import sys
from pathlib import Path

import pytest
import torch

from counterpoint import CorrelationLoss, DiversityLoss, fit

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
START, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
pytestmark = pytest.mark.filterwarnings("ignore")


def block_of(package):
    if package not in sys.modules:
        try:
            __import__(package)
        except (ImportError, RuntimeError) as error:  # RuntimeError: of a torchvision that does not fit torch
            pytest.skip(f"{package} cannot be imported: {error}")
    (found,) = [block for block in BLOCKS if re.search(rf"^(import|from) {package}\b", block, flags=re.M)]
    return found


def after(block, **replaced):
    """Return what a block leaves, after the first lines of the page."""
    for old, new in replaced.items():
        assert old in block
        block = block.replace(old, new)
    space = {}
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(START + block, space)
    return space


def trained_by_fit(loss):
    space = {}
    exec(START, space)
    fit(
        space["ensemble"],
        space["batches"],
        loss=loss,
        optimizer=torch.optim.Adam,
        epochs=3,
        progress=False,
    )
    return space["ensemble"], space["x"]


@pytest.mark.parametrize("package", ["lightning", "accelerate"])
def test_the_loop_of_another_library_trains_as_fit_does(package):
    space = after(block_of(package))
    expected, x = trained_by_fit(CorrelationLoss(0.8))
    assert space["ensemble"].vote == expected.vote
    assert space["ensemble"].readout is not None
    torch.testing.assert_close(space["ensemble"](x), expected(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        space["ensemble"].predict_proba(x), expected.predict_proba(x), rtol=1e-3, atol=1e-4
    )


def test_the_module_for_lightning_refuses_to_accumulate_the_loss_of_correlations():
    block = block_of("lightning")
    with pytest.raises(ValueError, match="`accumulate_grad_batches` must be 1"):
        after(block, **{"max_epochs=3": "max_epochs=1, accumulate_grad_batches=2"})


def test_skorch_predicts_the_vote_of_the_ensemble():
    space = after(block_of("skorch"))
    inner, x = space["net"].module_, space["x"]
    assert space["proba"].shape == (512, 2)
    torch.testing.assert_close(torch.from_numpy(space["proba"]), inner.predict_proba(x))
    expected, _ = trained_by_fit(DiversityLoss())
    assert inner.vote == expected.vote == "geometric"
    torch.testing.assert_close(inner(x), expected(x), rtol=1e-4, atol=1e-5)


def test_the_accuracy_that_skorch_reports_is_that_of_the_vote():
    space = after(block_of("skorch"), **{"train_split=None": "train_split=lambda data, y: (data, data)"})
    right = space["net"].module_.predict(space["x"]) == space["y"]
    assert space["net"].history[-1, "valid_acc"] == pytest.approx(float(right.float().mean()), abs=1e-6)
