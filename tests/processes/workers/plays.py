"""A worker of any role: notes in the directory STAGE what it was told, then does its part.

PLAY says which, for a role or for one worker of it, as in `server=outlive trainer=end trainer.1=3`:
  serve        answers calls at its endpoint until it is told to stop (what servers do unless told otherwise)
  stay         the same, and ignores SIGTERM
  work         calls all servers, notes who answered, and waits for the file `finish` (what others do)
  end          the same, without waiting
  outlive[.N]  serves until no trainer is left, and ends with code N
  deaf         serves, and does not hear SIGTERM; a child of it does not either
  N, SIGX      ends in this way, on attempts up to FAIL_UNTIL; later like `end`
The file `fail.ROLE.RANK` ends anybody who waits, in the way that it says.
"""

import json
import os
import select
import signal
import socket
import sys
import time

STAGE, ROUND = os.environ.get("STAGE", "."), os.environ["FLOTA_ROUND"]
ROLE, RANK = os.environ["FLOTA_ROLE"], os.environ["FLOTA_RANK"]
SERVERS = ("server", "coordinator", "heter", "ps", "scheduler")
NAMES = ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "ATTEMPT", "DEVICE")
OTHERS = ("PADDLE_GLOO_HTTP_ENDPOINT", "PADDLE_TRAINER_ID", "CUDA_VISIBLE_DEVICES", "TF_CONFIG")


def note(kind, **facts):
    """Whole, or not there: somebody is waiting for it. Made once: a worker that is there twice is a failure."""
    draft = f"{STAGE}/.{os.getpid()}"
    with open(draft, "w") as file:
        json.dump({"host": os.uname().nodename, "pid": os.getpid(), "at": time.monotonic(), **facts}, file)
    os.link(draft, f"{STAGE}/{kind}.{ROUND}.{ROLE}.{RANK}")
    os.unlink(draft)


def told():
    """What it does: its own word, its role's, or what its kind does."""
    words = dict(word.split("=") for word in os.environ.get("PLAY", "").split())
    return words.get(f"{ROLE}.{RANK}") or words.get(ROLE) or ("serve" if ROLE in SERVERS else "work")


def stop(*_):
    note("stopped")
    os._exit(0)


def fail(how):
    note("failed")
    print(f"{ROLE} {RANK} was told to fail", flush=True)
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
    sys.exit(int(how))


def wait_for(condition):
    while not condition():
        try:
            how = open(f"{STAGE}/fail.{ROLE}.{RANK}").read()
            os.unlink(f"{STAGE}/fail.{ROLE}.{RANK}")
        except FileNotFoundError:
            time.sleep(0.005)
        else:
            fail(how)


def place(endpoint):
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def serve(until):
    host, port = place(os.environ["FLOTA_ENDPOINT"])
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        note("serving")

        def answer():
            if select.select([server], [], [], 0)[0]:
                server.accept()[0].sendall(f"{ROLE} {RANK}".encode())
            return until()

        wait_for(answer)


def call(endpoint):
    """What a server answers, once it is up."""
    answers = []

    def is_answered():
        try:
            with socket.create_connection(place(endpoint), 5) as server:
                answers.append(server.recv(100).decode())
        except OSError:
            return False
        return True

    wait_for(is_answered)
    return answers[0]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def trainers_are_gone():
    notes = [name for name in os.listdir(STAGE) if name.startswith(f"came.{ROUND}.trainer.")]
    pids = [json.load(open(f"{STAGE}/{name}"))["pid"] for name in notes]
    return bool(pids) and not any(map(is_alive, pids))


def play(word):
    if word in ("serve", "stay"):
        if word == "stay":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        serve(lambda: False)
    elif word == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork():
            note("parent")
        time.sleep(600)
    elif word.startswith("outlive"):
        serve(trainers_are_gone)
        sys.exit(int(word.partition(".")[2] or 0))
    elif word in ("work", "end"):
        servers = filter(None, os.environ.get("FLOTA_ENDPOINTS_SERVER", "").split(",") if ROLE not in SERVERS else ())
        note("answered", answers=[call(endpoint) for endpoint in servers])
        wait_for(lambda: word == "end" or os.path.exists(f"{STAGE}/finish"))
    elif int(os.environ["FLOTA_ATTEMPT"]) <= int(os.environ.get("FAIL_UNTIL", "99")):
        fail(word)
    else:
        play("end")


signal.signal(signal.SIGTERM, stop)
lists = {name: value for name, value in os.environ.items() if name.startswith("FLOTA_ENDPOINT") or name in OTHERS}
note("came", argv=sys.argv[1:], **{name.lower(): os.environ[f"FLOTA_{name}"] for name in NAMES}, **lists)
print(f"{ROLE} {RANK} is here", flush=True)
play(told())
