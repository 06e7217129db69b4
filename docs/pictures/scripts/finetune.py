"""A progress bar on stderr, redrawn with `\\r`, as tqdm draws it."""

import os
import sys
import time

RANK = int(os.environ["RANK"])
STEPS, WIDTH = 80, 30

for step in range(STEPS + 1):
    filled = WIDTH * step // STEPS
    bar = "█" * filled + " " * (WIDTH - filled)
    sys.stderr.write(f"\repoch 1: {100 * step // STEPS:3d}%|{bar}| {step}/{STEPS}")
    sys.stderr.flush()
    time.sleep(0.03 + 0.01 * RANK)
sys.stderr.write("\n")
print(f"epoch 1: accuracy {0.91 + 0.01 * RANK:.2f}")
