"""Paddle: the high-level API, which finds out by itself that it is one of several."""

import paddle


class Sums(paddle.io.Dataset):
    """32 rows of four numbers and their sum."""

    def __init__(self):
        paddle.seed(3)
        self.x = paddle.randn([32, 4]).numpy()

    def __getitem__(self, index):
        return self.x[index], self.x[index].sum(keepdims=True)

    def __len__(self):
        return len(self.x)


class PrintLoss(paddle.callbacks.Callback):
    def on_train_batch_end(self, step, logs=None):
        print(f"RESULT rank={rank} world={world} step={step} loss={logs['loss'][0]:.9f}")


paddle.set_default_dtype("float64")
environment = paddle.distributed.ParallelEnv()
rank, world = environment.rank, environment.world_size
data = Sums()
paddle.seed(7)
model = paddle.Model(paddle.nn.Linear(4, 1))
model.prepare(paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters()), paddle.nn.MSELoss())
model.fit(data, epochs=2, batch_size=4, shuffle=False, verbose=0, callbacks=[PrintLoss()])
weights = ",".join(f"{weight:.9f}" for weight in model.parameters()[0].flatten().tolist())
print(f"RESULT rank={rank} world={world} weights={weights}")
