"""Trains with snapshots, in the framework and the way of the first argument, for so many steps. In each of the first
attempts, as many as the third argument says, a random rank is killed at a random moment: any code may be running then.
"""

import hashlib
import os
import random
import signal
import sys
import threading

import flota

way, steps, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = flota.env()


chance = random.Random(f"{os.environ.get('FLOTA_SEED', '7')} {way} {env.attempt}")
victim, after, seconds = chance.randrange(env.world_size), chance.randrange(5, 40), chance.random() / 50


reached = 0


def kill_someone(start, step):
    """Called when the state of a step has been saved. The victim is killed soon after one of them."""
    global reached
    reached = step
    if env.attempt < kills and victim == env.rank and step - start == after:
        threading.Timer(seconds, kill_this).start()


def kill_this():
    print(f"RESULT rank={env.rank} attempt={env.attempt} reached={reached}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def digest(*arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def finish(start, *arrays):
    print(f"RESULT rank={env.rank} start={start} digest={digest(*arrays)}", flush=True)


def report_start(start):
    print(f"RESULT rank={env.rank} attempt={env.attempt} begins={start}", flush=True)


def run_torch():
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    flota.init_parallel_env("torch")
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.Tanh(), torch.nn.Linear(64, 4))
    if way == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (env.world_size,))
        for layer in (model[0], model[3]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optim = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, steps)
    snap = flota.snapshot("train", sharded=True)
    torch.manual_seed(100 + env.rank)
    start = snap.load(model=model, optim=optim, schedule=schedule)
    if start:
        torch.set_rng_state(snap.value("chance"))
    report_start(start)
    for step in range(start, steps):
        kill_someone(start, step)
        x = torch.randn(8, 16)
        loss = ((model(x) - x[:, :4]) ** 2).mean()
        loss.backward()
        optim.step()
        schedule.step()
        optim.zero_grad()
        snap.save(step + 1, model=model, optim=optim, schedule=schedule, chance=torch.get_rng_state())
    values = [*model.parameters(), *(one for state in optim.state.values() for one in state.values())]
    local = [one.to_local() if hasattr(one, "to_local") else one for one in values]
    finish(start, *(one.detach().numpy() for one in local))
    dist.destroy_process_group()
    # A thread of gloo that is still there can abort an interpreter that ends: 3 of 12 runs of FSDP2 under torchrun, too.
    os._exit(0)


def run_paddle():
    import paddle
    import paddle.distributed as dist

    flota.init_parallel_env("paddle")
    paddle.seed(7)
    model = paddle.DataParallel(
        paddle.nn.Sequential(paddle.nn.Linear(16, 64), paddle.nn.Tanh(), paddle.nn.Linear(64, 4))
    )
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.01, steps)
    optim = paddle.optimizer.AdamW(schedule, parameters=model.parameters())
    snap = flota.snapshot("train")
    start = snap.load(model=model, optim=optim)
    report_start(start)
    for step in range(start, steps):
        kill_someone(start, step)
        paddle.seed(1000 * step + env.rank)
        x = paddle.randn([8, 16])
        loss = ((model(x) - x[:, :4]) ** 2).mean()
        loss.backward()
        optim.step()
        schedule.step()
        optim.clear_grad()
        snap.save(step + 1, model=model, optim=optim)
    state = optim.state_dict()
    moments = [state[name] for name in sorted(state) if hasattr(state[name], "numpy")]
    finish(start, *(one.numpy() for one in [*model.parameters(), *moments]))
    dist.destroy_process_group()


def run_jax():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.distributed.initialize()
    mesh = Mesh(jax.devices(), "workers")
    rows = NamedSharding(mesh, PartitionSpec("workers"))
    same = NamedSharding(mesh, PartitionSpec())

    def loss_of(params, x, y):
        return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - y) ** 2)

    @jax.jit
    def train_step(params, moments, x, y):
        gradients = jax.grad(loss_of)(params, x, y)
        moments = jax.tree.map(lambda one, other: 0.9 * one + other, moments, gradients)
        return jax.tree.map(lambda one, other: one - 0.05 * other, params, moments), moments

    def everywhere(array):
        return jax.make_array_from_callback(array.shape, same, lambda index: array[index])

    chance = np.random.default_rng(7)
    params = {
        "in": everywhere(chance.standard_normal((16, 32), "f4")),
        "out": everywhere(chance.standard_normal((32, 4), "f4")),
    }
    moments = jax.tree.map(lambda one: one * 0, params)
    snap = flota.snapshot("train")
    start = snap.load(params=params, moments=moments)
    report_start(start)
    for step in range(start, steps):
        kill_someone(start, step)
        x = np.random.default_rng(step).standard_normal((8, 16), "f4")
        mine = np.split(x, env.world_size)[env.rank]
        x, y = (jax.make_array_from_process_local_data(rows, part) for part in (mine, mine[:, :4]))
        params, moments = train_step(params, moments, x, y)
        jax.block_until_ready(params)
        snap.save(step + 1, params=params, moments=moments)
    finish(start, *(np.asarray(one.addressable_data(0)) for one in jax.tree.leaves([params, moments])))
    jax.distributed.shutdown()


{"ddp": run_torch, "fsdp": run_torch, "paddle": run_paddle, "jax": run_jax}[way]()
