"""Paddle's own example of spawn, with flota.spawn in the place of dist.spawn; `paddle_spawn.py CALL [theirs]`.

`theirs` is Paddle's own spawn, which comes to the same weights.
"""

import os
import sys

import paddle
import paddle.distributed as dist
from paddle import nn

import flota


class LinearNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.second = nn.Linear(10, 1)

    def forward(self, x):
        return self.second(self.first(x))


def train(print_result=False):  # noqa: FBT002  as the documentation calls it
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(7)
    net = paddle.DataParallel(LinearNet())
    adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=net.parameters())
    paddle.seed(100 + rank)
    loss = nn.MSELoss()(net(paddle.randn([10, 10], "float32")), paddle.randn([10, 1], "float32"))
    loss.backward()
    adam.step()
    adam.clear_grad()
    weight = float(net.parameters()[0].sum())
    if print_result is True:
        print(f"RESULT rank={rank} world={world} backend={os.environ['PADDLE_DISTRI_BACKEND']} weight={weight:.6f}")
    return weight


if __name__ == "__main__":
    if sys.argv[2:] == ["theirs"]:
        flota.spawn = dist.spawn
    if sys.argv[1] == "1":
        flota.spawn(train)
    elif sys.argv[1] == "2":
        flota.spawn(train, args=(True,))
    elif sys.argv[1] == "3":
        flota.spawn(train, args=(True,), nprocs=2)
    elif sys.argv[1] == "4":
        flota.spawn(train, nprocs=2, gpus="4,5")
