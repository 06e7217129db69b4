"""Copies 1 GB of torch tensors to other tensors, and into a snapshot; both warm. Writes seconds, and microseconds of a
save at a step that is not saved, to the file that is the argument."""

import sys
import time

import torch

import flota

COUNT, ELEMENTS = 100, 2_500_000  # 1 GB of float32
TURNS = 5

state = [torch.rand(ELEMENTS) for _ in range(COUNT)]
others = [torch.empty_like(one) for one in state]
snap = flota.snapshot("bench", every=1)


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def copy():
    for one, other in zip(state, others, strict=True):
        other.copy_(one)


step = 0


def save():
    global step
    step += 1
    snap.save(step, state=state)


copy()
for _ in range(3):
    save()  # takes the pages of all buffers
copies, saves = [], []
for _ in range(TURNS):
    copies.append(seconds(copy))
    saves.append(seconds(save))
snap.every = 1 << 40
calls = 100_000
skipped = seconds(lambda: [snap.save(1, state=state) for _ in range(calls)]) / calls * 1e6
assert snap._writes, "the memory is too small"  # noqa: SLF001
with open(sys.argv[1], "w") as file:
    file.write(f"{min(copies)} {min(saves)} {skipped}")
