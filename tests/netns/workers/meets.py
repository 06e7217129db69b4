"""Every rank connects to rank 0 at the address and port that it was given, and prints all ranks."""

import os
import socket
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
ME = f"{RANK} {os.uname().nodename} {os.environ['NODE_RANK']} {os.environ['LOCAL_RANK']} {WORLD}\n"


def host():
    family = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
    with socket.create_server((ADDRESS, PORT), family=family) as server:
        server.settimeout(20)
        guests = [server.accept()[0].makefile("rw") for _ in range(WORLD - 1)]
    everybody = sorted([ME, *(guest.readline() for guest in guests)])
    for guest in guests:
        guest.writelines(everybody)
        guest.flush()
        guest.close()
    return everybody


def call():
    give_up = time.monotonic() + 20
    while True:
        try:
            guest = socket.create_connection((ADDRESS, PORT), 20).makefile("rw")
            break
        except ConnectionRefusedError:  # rank 0 is not up yet
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)
    guest.write(ME)
    guest.flush()
    return guest.readlines()


print("".join(call() if RANK else host()), end="")
