"""Records a time for this worker's attempt."""

import os


def note(directory, clock):
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    os.makedirs(f"{directory}/{attempt}", exist_ok=True)
    # Renamed when complete: a reader never sees a part of it.
    with open(f"{directory}/{os.getpid()}.tmp", "w") as file:
        file.write(str(clock))
    os.replace(file.name, f"{directory}/{attempt}/{os.getpid()}")
