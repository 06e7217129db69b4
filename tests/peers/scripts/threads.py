"""torch: how many threads it computes with."""

import torch

print(f"RESULT threads={torch.get_num_threads()}")
