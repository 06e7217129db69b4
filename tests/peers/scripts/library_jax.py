"""JAX with flota's init_parallel_env and shutdown, under flota and as a single process."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import flota

env = flota.init_parallel_env()
assert flota.init_parallel_env() == env
assert (jax.process_index(), jax.process_count()) == (env.rank, env.world_size)
mesh = Mesh(jax.devices(), "workers")


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=PartitionSpec("workers"), out_specs=PartitionSpec())
def add_up(numbers):
    return jax.lax.psum(numbers, "workers")


own = np.array([env.rank + 1.0])
total = add_up(jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("workers")), own))
try:
    flota.DataParallel(object())
except flota.FlotaError as error:
    print(error)
print(f"RESULT rank={env.rank} world={env.world_size} sum={total.item()}")
flota.shutdown()
flota.shutdown()
