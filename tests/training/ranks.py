"""Functions run by several processes at once, for the tests of training on a mesh."""

import datetime
import os
import traceback

import torch
import torch.distributed as dist


def run_on_ranks(function, n_ranks, folder, *arguments, seconds=60):
    """Return what a function of a test module returns in each of several processes of one group."""
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    store = os.path.join(folder, f"store-{function.__name__}-{n_ranks}")
    started = [
        context.Process(target=_work, args=(function, rank, n_ranks, store, queue, seconds, arguments))
        for rank in range(n_ranks)
    ]
    for process in started:
        process.start()
    try:
        found = dict(queue.get(timeout=2 * seconds) for _ in started)
    finally:
        for process in started:
            process.join(5)
            process.kill()
    broken = [text for ok, text in found.values() if not ok]
    assert not broken, "\n".join(broken)
    return [found[rank][1] for rank in range(n_ranks)]


def _work(function, rank, n_ranks, store, queue, seconds, arguments):
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=seconds)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=n_ranks, timeout=timeout
    )
    try:
        queue.put((rank, (True, function(rank, *arguments))))
    except Exception:
        queue.put((rank, (False, f"rank {rank}: {traceback.format_exc()}")))
        raise
    finally:
        dist.destroy_process_group()
