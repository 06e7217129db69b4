"""Paddle 2.6: servers hold all weights, and each trainer trains some of them: `paddle_ps.py [GATE]`.

The loss is over all weights, so it falls only where every trainer's gradients reach the servers. Where a gate is named,
training goes on until there is such a file.
"""

import sys
import time
from pathlib import Path

import numpy
import paddle
from paddle.distributed import fleet

GATE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")
WANTED_LOSS = 0.05
ROWS, WIDTH = 16, 8

paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
strategy = fleet.DistributedStrategy()
strategy.a_sync = True

row = paddle.static.data("row", [ROWS, 1], "int64")
mine = paddle.static.data("mine", [ROWS, 1], "float32")
weights = paddle.reshape(paddle.static.nn.sparse_embedding(row, [ROWS, WIDTH]), [ROWS, WIDTH])
errors = paddle.square(paddle.mean(weights, axis=1, keepdim=True) - 1)
loss = paddle.mean(errors)
optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1), strategy)
optimizer.minimize(paddle.mean(errors * mine))


def serve() -> None:
    fleet.init_server()
    print(f"SERVING index={fleet.server_index()}", flush=True)
    fleet.run_server()


def train() -> None:
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    rank, world = fleet.worker_index(), fleet.worker_num()
    rows = numpy.arange(ROWS).reshape(ROWS, 1)
    given = {"row": rows, "mine": (rows % world == rank).astype("float32")}
    losses: list[float] = []
    while not losses or losses[-1] > WANTED_LOSS or not GATE.exists():
        [now] = executor.run(feed=given, fetch_list=[loss])
        if len(losses) % 10 == 0:
            print(f"step {len(losses)} loss {float(now):.6f}", flush=True)
        losses.append(float(now))
        time.sleep(0.01)  # gradients are sent meanwhile
    fleet.stop_worker()
    print(f"RESULT rank={rank} world={world} servers={fleet.server_num()} first={losses[0]:.6f} last={losses[-1]:.6f}")


if fleet.is_server():
    serve()
else:
    train()
