"""A multiprocessing pool, as a data loader has."""

import multiprocessing
import os
import pathlib
import time

if __name__ == "__main__":
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.apply_async(time.sleep, (600,))
    pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
    time.sleep(600)
