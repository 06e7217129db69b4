"""Notes the clock under its attempt's number, and sleeps until it is ended."""

import time

START = time.monotonic()

import os  # noqa: E402
import sys  # noqa: E402

attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
os.makedirs(f"{sys.argv[1]}/{attempt}", exist_ok=True)
# Moved into place: whoever sees the note can read all of it.
note = f"{sys.argv[1]}/{attempt}/{os.getpid()}"
with open(f"{sys.argv[1]}/{os.getpid()}.tmp", "w") as file:
    file.write(str(START))
os.replace(file.name, note)
time.sleep(3600)
