"""TensorFlow's ParameterServerStrategy: one script for a chief, its workers, and a ps that holds the variables.

    cd examples/tensorflow_ps
    flota --framework tensorflow train.py

The roles are defined in flota.toml; TF_CONFIG contains the role of each process. The model learns y = 3x - 2.
"""

import tensorflow as tf

STEPS, RATE = 100, 0.1

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
cluster, role, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id


def serve() -> None:
    """Serve the chief. Does not return."""
    print(f"{role} {index} serves", flush=True)
    tf.distribute.Server(cluster, job_name=role, task_index=index, protocol="grpc").join()


def train() -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        taken = tf.Variable(0, dtype=tf.int64)
        slope, offset = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def take_step() -> tf.Tensor:
        """Runs on one of the workers, with random data. The variables are on the ps."""
        x = tf.random.uniform([32], -1, 1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * x + offset - (3 * x - 2)) ** 2)
        by_slope, by_offset = tape.gradient(loss, (slope, offset))
        slope.assign_sub(RATE * by_slope)
        offset.assign_sub(RATE * by_offset)
        taken.assign_add(1)
        return loss

    losses = [coordinator.schedule(take_step) for _ in range(STEPS)]
    coordinator.join()
    print(f"workers {cluster.num_tasks('worker')}  steps {taken.numpy()}  variables on {slope.device}")
    first, last = losses[0].fetch(), losses[-1].fetch()
    print(f"loss {first:.6f}, then {last:.6f}  y = {slope.numpy():.3f} x + {offset.numpy():.3f}")


if role == "chief":
    train()
else:
    serve()
