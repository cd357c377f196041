"""Several processes in one group, for the tests of training on a mesh; forked from one that has imported torch."""

import datetime
import time
import traceback

import torch
import torch.distributed as dist

SECONDS = 60
# What takes longest to import: all processes are forked from one that has done it.
IMPORTS = [
    "pytest",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "counterpoint.training",
    "counterpoint.training.mesh",
]


class Ranks:
    """Processes that each call a function of a test module and send back what it returns."""

    def __init__(self, n_ranks, folder):
        forks = "forkserver" in torch.multiprocessing.get_all_start_methods()
        context = torch.multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks:
            context.set_forkserver_preload(IMPORTS)
        self.answers = context.Queue()
        self.questions = [context.Queue() for _ in range(n_ranks)]
        store = folder / "store"
        self.processes = [
            context.Process(target=_serve, args=(rank, n_ranks, store, questions, self.answers))
            for rank, questions in enumerate(self.questions)
        ]
        for process in self.processes:
            process.start()

    def __call__(self, function, *arguments):
        """Return the results of all processes; all must call the same collectives."""
        assert self.processes, "an earlier function failed on a rank"
        for questions in self.questions:
            questions.put((function, arguments))
        found = {}
        while len(found) < len(self.questions):
            rank, ok, result = self.answers.get(timeout=2 * SECONDS)
            found[rank] = result
            if not ok:  # the others fail with it, in another place perhaps
                time.sleep(3)
                said = [result] + [self.answers.get()[2] for _ in range(self.answers.qsize())]
                self.close()
                raise AssertionError("\n".join(map(str, said)))
        return [found[rank] for rank in sorted(found)]

    def close(self):
        """End the processes."""
        for process in self.processes:
            process.kill()
            process.join()
        self.processes = []


def _serve(rank, n_ranks, store, questions, answers):
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=SECONDS)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=n_ranks, timeout=timeout
    )
    while True:
        function, arguments = questions.get()
        try:
            answers.put((rank, True, function(rank, *arguments)))
        except Exception:
            answers.put((rank, False, f"rank {rank}: {traceback.format_exc()}"))
