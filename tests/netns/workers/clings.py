"""Every rank is connected to rank 0, and fails as soon as a connection is closed, as collective training does."""

import os
import select
import socket
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PLACE = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def call():
    while True:
        try:
            return socket.create_connection(PLACE)
        except ConnectionRefusedError:  # rank 0 is not up yet
            time.sleep(0.01)


if RANK == 0:
    with socket.create_server(PLACE) as server:
        ends = [server.accept()[0] for _ in range(WORLD - 1)]
else:
    ends = [call()]
open(f"{os.environ['STAGE']}/clings.{os.environ['FLOTA_ROUND']}.{RANK}", "w").close()
select.select(ends, [], [])
sys.exit(f"rank {RANK} has lost a peer")
