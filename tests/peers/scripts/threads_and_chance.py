"""Tells what libraries have made of the machine and of chance: threads of torch and BLAS, and first random numbers."""

import os
import random

import numpy as np
import torch

np.ones((600, 600)) @ np.ones((600, 600))
threads = len(os.listdir("/proc/self/task"))
torch.ones(600, 600) @ torch.ones(600, 600)
print(f"RESULT torch={torch.get_num_threads()} blas={threads}")
print(f"DRAWN {np.random.rand()} {random.random()} {torch.rand(1, dtype=torch.float64).item()}")
