"""TensorFlow: MultiWorkerMirroredStrategy, an all-reduce and a training loop of its own (Keras 3 cannot fit under it)."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, world = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1], tf.float64))


def add_up():
    replica = tf.distribute.get_replica_context()
    number = tf.cast(replica.replica_id_in_sync_group, tf.float64) + 1
    return replica.all_reduce("SUM", number)


def descend(x):
    """One step on this worker's own rows; the gradient and the loss are everybody's."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - tf.reduce_sum(x, axis=1, keepdims=True)) ** 2)
    replica = tf.distribute.get_replica_context()
    gradient = replica.all_reduce("MEAN", tape.gradient(loss, weights))
    weights.assign_sub(0.1 * gradient)
    return replica.all_reduce("MEAN", loss)


@tf.function
def everywhere(x):
    return strategy.run(add_up), strategy.run(descend, args=(x,))


x = tf.random.stateless_normal([16, 4], seed=[7, rank], dtype=tf.float64)
results = [everywhere(x) for _ in range(5)]
losses = ",".join(f"{loss.numpy():.9f}" for _, loss in results)
print(f"RESULT rank={rank} world={world} total={results[0][0].numpy()} losses={losses}")
