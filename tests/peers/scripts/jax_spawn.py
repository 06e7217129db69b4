"""JAX: a function as the program of two processes."""

import flota


def add_up():
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    jax.distributed.initialize()
    ranks = multihost_utils.process_allgather(jnp.array([jax.process_index()]))
    jax.distributed.shutdown()
    return jax.process_count(), ranks.flatten().tolist()


if __name__ == "__main__":
    print("RESULT", flota.spawn(add_up, nprocs=2, framework="jax", timeout=90).results())
