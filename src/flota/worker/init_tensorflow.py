"""TensorFlow: sets a MultiWorkerMirroredStrategy from TF_CONFIG, which tf.distribute.get_strategy() returns."""

from __future__ import annotations

import tensorflow as tf

from flota.worker.environment import Env

INSTEAD = "create the model after flota.init_parallel_env(), and train it as examples/tensorflow does"


def is_running() -> bool:
    return bool(tf.distribute.has_strategy())


def init(env: Env) -> None:
    if env.world_size > 1:
        tf.distribute.experimental_set_strategy(tf.distribute.MultiWorkerMirroredStrategy())


def shutdown() -> None:
    tf.distribute.experimental_set_strategy(None)
