"""torch: a script of the days when the launcher gave the local rank as an argument."""

import argparse
import os
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int)
parser.add_argument("--epochs", type=int)
args = parser.parse_args()

dist.init_process_group("gloo")
ranks = torch.tensor(dist.get_rank())
dist.all_reduce(ranks)
rank = dist.get_rank()
print(
    f"RESULT rank={rank} argument={args.local_rank} variable={os.environ['LOCAL_RANK']} epochs={args.epochs} sum={ranks}"
)
time.sleep(0.2)  # Threads of gloo that still have tensors would abort an interpreter that ends.
dist.destroy_process_group()
