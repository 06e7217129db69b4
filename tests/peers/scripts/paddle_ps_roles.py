"""Paddle 3: who is a server and who a trainer, and gloo among the trainers, which meet at a store of server 0's."""

import numpy
import paddle
from paddle.distributed import fleet

paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
job = f"servers={fleet.server_endpoints(to_string=True)} trainers={fleet.worker_endpoints(to_string=True)}"
if fleet.is_server():
    print(f"RESULT role=server index={fleet.server_index()} {job}")
else:
    index = fleet.worker_index()
    fleet.util.barrier("worker")
    total = fleet.util.all_reduce(numpy.array([index + 1.0]), "sum", "worker")
    print(f"RESULT role=trainer index={index} {job} total={float(total[0])}")
