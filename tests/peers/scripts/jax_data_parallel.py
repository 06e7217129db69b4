"""JAX: a psum over all processes, then data-parallel training. With `alone` it is a program of one process."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

if sys.argv[1:] != ["alone"]:
    jax.distributed.initialize()
jax.config.update("jax_enable_x64", True)  # noqa: FBT003
mesh = Mesh(jax.devices(), "workers")
rank, world = jax.process_index(), jax.process_count()


def share(rows):
    """This process's share of rows that all processes have, as a part of one global array."""
    return jax.make_array_from_process_local_data(
        NamedSharding(mesh, PartitionSpec("workers")), np.split(rows, world)[rank]
    )


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=PartitionSpec("workers"), out_specs=PartitionSpec())
def total(numbers):
    return jax.lax.psum(numbers, "workers")


def loss_of(weights, x, y):
    return jnp.mean((x @ weights - y) ** 2)


@jax.jit
def train_step(weights, x, y):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return weights - 0.1 * gradient, loss


x = np.random.default_rng(7).standard_normal((32, 4))
y = x.sum(axis=1)
weights = jnp.zeros(4)
for _ in range(10):
    weights, loss = train_step(weights, share(x), share(y))
numbers = total(share(np.arange(1.0, world + 1)))
print(f"RESULT rank={rank} world={world} total={numbers.item()} loss={loss:.9f}")
if world > 1:
    jax.distributed.shutdown()
