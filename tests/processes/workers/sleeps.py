"""Says that it is there, and sleeps."""

import os
import pathlib
import time

pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
