"""What Paddle takes from the variables of a pod whose role PaddleCloud has decided on."""

import paddle
from paddle.distributed import fleet

paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
index = f"server={fleet.server_index()}" if fleet.is_server() else f"trainer={fleet.worker_index()}"
print(f"RESULT {index} servers={fleet.server_endpoints(to_string=True)} trainers={fleet.worker_num()}")
