"""Paddle: fleet's collective mode."""

import paddle
from paddle.distributed import fleet

paddle.set_default_dtype("float64")
fleet.init(is_collective=True)
rank, world = fleet.worker_index(), fleet.worker_num()

paddle.seed(7)
model = fleet.distributed_model(paddle.nn.Linear(4, 1))
optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters()))
paddle.seed(100 + rank)
for _ in range(5):
    x = paddle.randn([8, 4])
    loss = ((model(x) - x.sum(axis=1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
weights = ",".join(f"{weight:.9f}" for weight in model.parameters()[0].flatten().tolist())
nodes, local_rank = fleet.node_num(), fleet.local_rank()
print(f"RESULT rank={rank} world={world} nodes={nodes} local={local_rank} loss={loss.item():.9f} weights={weights}")
