"""TensorFlow: flota.spawn runs a function in two workers. The model learns y = 3x - 2."""

import flota


def train(steps):
    import tensorflow as tf  # only in the workers

    env = flota.init_parallel_env()
    strategy = tf.distribute.get_strategy()
    tf.random.set_seed(env.rank)  # each worker generates different data
    slope, offset = tf.Variable(0.0), tf.Variable(0.0)

    def descend(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * x + offset - (3 * x - 2)) ** 2)
        replica = tf.distribute.get_replica_context()
        by_slope, by_offset = replica.all_reduce("MEAN", tape.gradient(loss, [slope, offset]))
        slope.assign_sub(0.1 * by_slope)
        offset.assign_sub(0.1 * by_offset)

    @tf.function
    def run_step():
        strategy.run(descend, args=(tf.random.uniform([32], -1, 1),))

    for _ in range(steps):
        run_step()
    learned = float(slope.numpy()), float(offset.numpy())
    flota.shutdown()
    return learned


if __name__ == "__main__":
    for rank, (slope, offset) in enumerate(flota.spawn(train, args=(201,), nprocs=2).results()):
        print(f"rank {rank} of 2: y = {slope:.2f} x + {offset:.2f}")
