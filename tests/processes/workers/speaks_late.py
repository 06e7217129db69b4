"""Stands still until its stacks are taken, and says something meanwhile."""

import os
import pathlib
import time

while not os.path.exists("dumping"):
    time.sleep(0.05)
print("goes on", flush=True)
pathlib.Path("spoke").touch()
while not os.path.exists("dumped"):
    time.sleep(0.05)
time.sleep(0.5)  # in which it could be ended
