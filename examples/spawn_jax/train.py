"""JAX: flota.spawn runs a function in two workers. The model learns y = 3x - 2."""

import flota


def train(steps):
    import jax  # only in the workers: JAX must not be initialized before their variables are set
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    env = flota.init_parallel_env()
    data = np.random.default_rng(env.rank)  # each worker generates different data
    sharding = NamedSharding(Mesh(jax.devices(), "workers"), PartitionSpec("workers"))

    def loss_of(weights, x):
        return jnp.mean((weights[0] * x + weights[1] - (3 * x - 2)) ** 2)

    descend = jax.jit(lambda weights, x: weights - 0.1 * jax.grad(loss_of)(weights, x))
    weights = jnp.zeros(2)
    for _ in range(steps):
        own = data.uniform(-1, 1, 32 * jax.local_device_count())
        weights = descend(weights, jax.make_array_from_process_local_data(sharding, own.astype(np.float32)))
    learned = weights.tolist()
    flota.shutdown()
    return learned


if __name__ == "__main__":
    for rank, (slope, offset) in enumerate(flota.spawn(train, args=(201,), nprocs=2, framework="jax").results()):
        print(f"rank {rank} of 2: y = {slope:.2f} x + {offset:.2f}")
