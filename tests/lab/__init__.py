"""Hosts as network namespaces on one machine, for tests that cross a network.

    with Lab(3) as lab:
        lab.host(1).popen(["python", "job.py"])
        lab.cut(2)

Nothing has a name outside the test's process, so labs do not interfere, and nothing outlives that process.
"""

from tests.lab.lab import Lab, missing

__all__ = ["Lab", "missing"]
