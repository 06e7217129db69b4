"""Data-parallel training in plain Python, without a framework: gradients are averaged in each step.

    flota --nproc_per_node 2 train.py

Rank 0 computes the average and listens on FLOTA_MASTER, an address that flota reserves for the job. With a single
worker there is nothing to average. The model learns y = 3x - 2.
"""

import json
import os
import random
import socket

RANK = int(os.environ.get("FLOTA_RANK", "0"))
WORLD = int(os.environ.get("FLOTA_WORLD_SIZE", "1"))
HOST, _, PORT = os.environ.get("FLOTA_MASTER", "127.0.0.1:0").rpartition(":")
STEPS, BATCH, RATE = 200, 32, 0.1


class Average:
    """All-reduce over sockets: rank 0 receives a line from each worker and sends the mean back."""

    def __init__(self) -> None:
        self.peers = []
        if RANK == 0:
            server = socket.create_server((HOST, int(PORT)), reuse_port=True)
            self.peers = [server.accept()[0].makefile("rw") for _ in range(WORLD - 1)]
        else:
            self.peers = [connect().makefile("rw")]

    def __call__(self, numbers: list[float]) -> list[float]:
        if RANK == 0:
            rows = [numbers, *(json.loads(peer.readline()) for peer in self.peers)]
            mean = [sum(column) / WORLD for column in zip(*rows, strict=True)]
            for peer in self.peers:
                send(peer, mean)
            return mean
        send(self.peers[0], numbers)
        return json.loads(self.peers[0].readline())


def connect() -> socket.socket:
    """Connect to rank 0, which may not be listening yet."""
    while True:
        try:
            return socket.create_connection((HOST, int(PORT)))
        except ConnectionRefusedError:
            continue


def send(peer: object, numbers: list[float]) -> None:
    peer.write(json.dumps(numbers) + "\n")
    peer.flush()


def main() -> None:
    data = random.Random(RANK)
    average = Average()
    slope = offset = 0.0
    for step in range(STEPS + 1):
        xs = [data.uniform(-1, 1) for _ in range(BATCH)]
        errors = [slope * x + offset - (3 * x - 2) for x in xs]
        loss, by_slope, by_offset = average(
            [
                sum(error * error for error in errors) / BATCH,
                sum(2 * error * x for error, x in zip(errors, xs, strict=True)) / BATCH,
                sum(2 * error for error in errors) / BATCH,
            ]
        )
        slope -= RATE * by_slope
        offset -= RATE * by_offset
        if RANK == 0 and step % 40 == 0:
            print(f"step {step:3d}  workers {WORLD}  loss {loss:.6f}")
    print(f"rank {RANK} of {WORLD}: y = {slope:.2f} x + {offset:.2f}")


if __name__ == "__main__":
    main()
