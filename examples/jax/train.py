"""JAX: the batch is one array sharded over all workers, so gradients include all of it. The model learns y = 3x - 2."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import flota

env = flota.init_parallel_env()
data = np.random.default_rng(env.rank)  # each worker generates different data
sharding = NamedSharding(Mesh(jax.devices(), "workers"), PartitionSpec("workers"))


def loss_of(weights, x):
    slope, offset = weights
    return jnp.mean((slope * x + offset - (3 * x - 2)) ** 2)


@jax.jit
def descend(weights, x):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x)
    return weights - 0.1 * gradient, loss


weights = jnp.zeros(2)
for step in range(201):
    own = data.uniform(-1, 1, 32 * jax.local_device_count())
    weights, loss = descend(weights, jax.make_array_from_process_local_data(sharding, own.astype(np.float32)))
    if env.rank == 0 and step % 40 == 0:
        print(f"step {step:3d}  workers {env.world_size}  loss {loss:.6f}")

slope, offset = weights.tolist()
print(f"rank {env.rank} of {env.world_size}: y = {slope:.2f} x + {offset:.2f}")
flota.shutdown()
