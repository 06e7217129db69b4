"""A Ray cluster on this machine: `ray_cluster.py NODES`. Prints its address; ends with its standard input."""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

cluster = Cluster()
for _ in range(int(sys.argv[1])):  # one after the other: two at once take the same ports
    cluster.add_node(
        num_cpus=2,
        num_gpus=2,  # only a number: Ray does not look for devices
        object_store_memory=80_000_000,
        include_dashboard=False,
        wait=True,
    )
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
