"""Run functions in several processes, for tests of process groups."""

import json
import os
import socket
import time
from multiprocessing import get_context

LONG = 120  # seconds after which a job hangs, however busy the machine


def together(job, count, folder):
    """Run a function in several processes; return the result of each."""
    from torch.multiprocessing import start_processes

    # forked from a server that imported these once: importing takes longer than most jobs
    get_context("forkserver").set_forkserver_preload(["lightning.pytorch", "torchmetrics"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    job = start_processes(_one, (job, count, folder, port), count, join=False, start_method="forkserver")
    end = time.monotonic() + LONG
    while not job.join(max(0, end - time.monotonic())):  # which raises what one of them raises
        if time.monotonic() > end:
            for process in job.processes:
                process.kill()
            raise TimeoutError(f"the processes have not ended within {LONG} seconds")
    return [json.loads((folder / f"{i}.json").read_text()) for i in range(count)]


def _one(rank, job, count, folder, port):
    import torch

    torch.set_num_threads(1)
    os.chdir(folder)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    (folder / f"{rank}.json").write_text(json.dumps(job()))
