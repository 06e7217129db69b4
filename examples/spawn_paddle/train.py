"""Paddle: flota.spawn runs a function in two workers. The model learns y = 3x - 2."""

import paddle

import flota


def train(steps):
    env = flota.init_parallel_env()
    paddle.seed(env.rank)  # each worker generates different data
    model = flota.DataParallel(paddle.nn.Linear(1, 1))
    optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
    for _ in range(steps):
        x = paddle.uniform([32, 1], min=-1.0, max=1.0)
        loss = paddle.nn.functional.mse_loss(model(x), 3 * x - 2)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    learned = [parameter.item() for parameter in model.parameters()]
    flota.shutdown()
    return learned


if __name__ == "__main__":
    for rank, (slope, offset) in enumerate(flota.spawn(train, args=(201,), nprocs=2).results()):
        print(f"rank {rank} of 2: y = {slope:.2f} x + {offset:.2f}")
