"""Paddle: the high-level API connects the workers. The model learns y = 3x - 2."""

import paddle

import flota


class Points(paddle.io.Dataset):
    """Points on the line. Model.fit splits them among the workers."""

    def __init__(self) -> None:
        paddle.seed(7)
        self.x = paddle.uniform([512, 1], min=-1.0, max=1.0).numpy()

    def __getitem__(self, number: int) -> tuple:
        return self.x[number], 3 * self.x[number] - 2

    def __len__(self) -> int:
        return len(self.x)


env = flota.env()
model = paddle.Model(paddle.nn.Linear(1, 1))
model.prepare(paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters()), paddle.nn.MSELoss())
model.fit(Points(), epochs=16, batch_size=16, verbose=0)

slope, offset = (parameter.item() for parameter in model.parameters())
print(f"rank {env.rank} of {env.world_size}: y = {slope:.2f} x + {offset:.2f}")
