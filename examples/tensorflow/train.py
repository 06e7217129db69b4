"""TensorFlow: a MultiWorkerMirroredStrategy and a custom training loop. The model learns y = 3x - 2."""

import tensorflow as tf

import flota

env = flota.init_parallel_env()
strategy = tf.distribute.get_strategy()
tf.random.set_seed(env.rank)  # each worker generates different data
slope, offset = tf.Variable(0.0), tf.Variable(0.0)  # created after init_parallel_env: the same on all workers


def descend(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((slope * x + offset - (3 * x - 2)) ** 2)
    replica = tf.distribute.get_replica_context()
    by_slope, by_offset, mean = replica.all_reduce("MEAN", [*tape.gradient(loss, [slope, offset]), loss])
    slope.assign_sub(0.1 * by_slope)
    offset.assign_sub(0.1 * by_offset)
    return mean


@tf.function
def run_step():
    return strategy.run(descend, args=(tf.random.uniform([32], -1, 1),))


for step in range(201):
    loss = run_step()
    if env.rank == 0 and step % 40 == 0:
        print(f"step {step:3d}  workers {env.world_size}  loss {loss.numpy():.6f}")

print(f"rank {env.rank} of {env.world_size}: y = {slope.numpy():.2f} x + {offset.numpy():.2f}")
flota.shutdown()
