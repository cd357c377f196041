"""docs/scale.md: its runs end alike, its bytes are counted, and a lost process is survived."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.fsdp

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
FOUND = json.loads((ROOT / "results" / "bench_mesh.json").read_text(encoding="utf-8"))
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def run_block(block):
    """Run the first block of the page and another one in double precision, and return their names."""
    space = {}
    torch.set_default_dtype(torch.float64)
    try:
        exec(BLOCKS[0] + block.replace("epochs=3", "epochs=3, progress=False"), space)
    finally:
        torch.set_default_dtype(torch.float32)
    return space


def run_blocks(rank):
    """Return the weights after each of the four runs of the page."""
    ensembles = [run_block(block)["ensemble"] for block in BLOCKS[1:5]]
    return [{name: value.numpy() for name, value in one.state_dict().items()} for one in ensembles]


def test_the_four_runs_differ_by_one_argument_and_end_alike(ranks):
    _, *runs = BLOCKS[:5]
    assert len({run.split("\n", 1)[1] for run in runs}) == 1
    assert [re.search(r"\((\d), (\d)\)", run) is not None for run in runs] == [False, True, True, True]
    for rank in ranks(run_blocks):
        for end in rank[1:]:
            for name, value in end.items():
                tolerance = 1e-6 if "readout" in name else 1e-12
                np.testing.assert_allclose(value, rank[0][name], rtol=tolerance, atol=tolerance)


def run_sharded(rank):
    """Return the weights after the run of the page with sharded weights."""
    from counterpoint.training.parallel import whole_state

    return {name: value.numpy() for name, value in whole_state(run_block(BLOCKS[5])["sharded"]).items()}


def test_the_run_with_sharded_weights_ends_as_the_others_do(ranks):
    if not hasattr(torch.distributed.fsdp, "fully_shard"):
        pytest.skip("fully_shard came with torch 2.6")
    expected = ranks(run_blocks)[0][0]
    for found in ranks(run_sharded):
        for name, value in expected.items():
            tolerance = 1e-6 if "readout" in name else 1e-12
            np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)


def count(rank):
    from benchmarks.bench_mesh import LOSSES, SHAPES, bytes_of

    return {
        name: {shape: bytes_of(kind, sizes) for shape, sizes in SHAPES.items()}
        for name, kind in LOSSES.items()
    }


def test_the_bytes_of_a_step_are_those_of_the_record_and_the_page(ranks):
    assert ranks(count)[0] == FOUND["bytes_of_a_loss"]
    n, m = FOUND["setting"]["learners"], FOUND["setting"]["classes"]
    numbers = (2 * n * m + 2 * m + 1) + (n * m + 2)
    assert FOUND["bytes_of_a_loss"]["CorrelationLoss()"]["data"]["bytes"] == 8 * numbers
    for name, by_shape in FOUND["bytes_of_a_loss"].items():
        cells = [
            f"{one['bytes']:,} B, {one['calls']} call{'s' if one['calls'] > 1 else ''}"
            for one in (by_shape["data"], by_shape["learners"])
        ]
        assert f"| `{name}` | {cells[0]} | {cells[1]} |" in PAGE


def test_the_model_of_the_cost_is_that_of_the_record():
    for row in FOUND["model"]["rows"]:
        line = (
            f"| {row['gpus']} | {row['learners']} x {row['data']} | {row['gradient_megabytes']:.0f} MB | "
            f"{row['gradient_ms']:.1f} | {row['loss_kilobytes']:.1f} kB | {row['loss_ms']:.1f} |"
        )
        assert line in PAGE


SCRIPT = """
import os, signal, sys
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from counterpoint.training import Callback, CorrelationLoss, Ensemble, fit

class Die(Callback):
    def on_epoch_begin(self, state):
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
        if "die" in sys.argv and state.epoch == 3 and not state.axes.is_main and first:
            os.kill(os.getpid(), signal.SIGKILL)

torch.manual_seed(0)
x = torch.randn(64, 2)
y = (x[:, 0] > 0).long()
ensemble = Ensemble([nn.Linear(2, 2) for _ in range(4)])
mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("learners", "data"))
fit(ensemble, list(zip(x.split(16), y.split(16))), loss=CorrelationLoss(0.8), optimizer=torch.optim.Adam, epochs=5,
    mesh=mesh, checkpoint=sys.argv[1], resume=True, progress=False, callbacks=[Die()])
if int(os.environ["RANK"]) == 0:
    torch.save(ensemble.state_dict(), sys.argv[1] + ".end")
"""


def torchrun(folder, name, *words, restarts=0):
    script = folder / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", str(restarts), str(script), str(folder / name), *words]
    start = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return done, time.monotonic() - start


@pytest.mark.slow
def test_a_lost_process_ends_the_job_and_torchrun_resumes_it(tmp_path):
    done, _ = torchrun(tmp_path, "whole")
    assert done.returncode == 0, done.stderr
    lost, seconds = torchrun(tmp_path, "lost", "die")
    assert lost.returncode != 0
    assert seconds < 120
    assert "ConnectionError: a process of the mesh has ended or does not answer, in epoch 3" in lost.stderr
    again, _ = torchrun(
        tmp_path, "again", "die", restarts=3
    )  # a new start may meet ports that are still in use
    assert again.returncode == 0, again.stderr
    expected, found = (torch.load(tmp_path / f"{name}.end") for name in ("whole", "again"))
    for name, value in found.items():
        assert torch.equal(value, expected[name])


def test_the_memory_of_large_tables_is_that_of_the_record():
    found = json.loads((ROOT / "results" / "bench_large_tables.json").read_text(encoding="utf-8"))
    cells = {
        (one["way"], one["rows"]): f"{one['extra_bytes'] / 1e6:,.0f} MB | {one['cpu_seconds']:.0f} s"
        for one in found["tables"]
    }
    for rows in (100_000, 1_000_000, 10_000_000):
        assert f"| {rows:,} | {cells['fit', rows]} | {cells['estimator', rows]} |" in PAGE
    most = max(one["bytes_per_row"] for one in found["tables"] if one["rows"] == 10_000_000)
    assert most < 2 * 4 * found["config"]["features"]  # float32 once, and less than that again


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))],
)
def test_several_processes_on_one_device_train_as_one_process_does(device):
    from benchmarks.bench_mesh import agreement

    rows = agreement(device)["rows"]
    assert {row["mesh"] for row in rows} == {"data", "learners", "both"}
    for row in rows:
        bound = {"float32": 2e-6, "float64": 1e-12}[row["dtype"]]
        assert max(row[f"{what}_difference"] for what in ("loss", "gradient", "weight")) < bound, row


def test_the_differences_on_cuda_are_those_of_the_record():
    rows = json.loads((ROOT / "results" / "mesh_on_one_cuda.json").read_text(encoding="utf-8"))["rows"]
    assert {row["mesh"] for row in rows} == {"data", "learners", "both"}
    largest = [
        max(
            row[f"{what}_difference"]
            for row in rows
            if row["dtype"] == dtype
            for what in ("loss", "gradient", "weight")
        )
        for dtype in ("float32", "float64")
    ]
    assert f"to {largest[0]:.1e} in float32 and {largest[1]:.1e} in float64" in " ".join(PAGE.split())


RECORDS = sorted((ROOT / "results").glob("bench_threads*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_threads_are_those_of_the_records(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    chosen = [[one["over_best"]["the choice"] for one in found[part]] for part in ("idle", "busy")]
    cells = [f"{max(ratios):.2f}" if ratios else "-" for ratios in chosen]
    most = str(min(found["cores"], 16))
    cells += [f"{max(one['over_best'][count] for one in found['idle']):.2f}" for count in ("1", most)]
    assert f"| {found['cores']} | {' | '.join(cells)} | `{path.name}` |" in PAGE
