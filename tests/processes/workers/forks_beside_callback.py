"""Has a callback for preemption, and children: one that is ended by its parent, and one that asks for its own."""

import multiprocessing
import os
import time

import flota

flota.on_stop(lambda: print("called in", os.getpid(), flush=True))
fork = multiprocessing.get_context("fork")
child = fork.Process(target=time.sleep, args=(60,))
child.start()
child.terminate()
child.join()
asks = fork.Process(target=lambda: flota.on_stop(lambda: print("called in a child", flush=True)))
asks.start()
asks.join()
print("children ended with", child.exitcode, asks.exitcode, flush=True)
