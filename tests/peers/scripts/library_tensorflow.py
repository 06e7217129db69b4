"""TensorFlow with flota's init_parallel_env and shutdown, under flota and as a single process."""

import tensorflow as tf

import flota

env = flota.init_parallel_env()
assert flota.init_parallel_env() == env
strategy = tf.distribute.get_strategy()
assert strategy.num_replicas_in_sync == env.world_size


@tf.function
def add_up():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(env.rank + 1.0)))


total = add_up().numpy()
try:
    flota.DataParallel(object())
except flota.FlotaError as error:
    print(error)
print(f"RESULT rank={env.rank} world={env.world_size} sum={total}")
flota.shutdown()
flota.shutdown()
