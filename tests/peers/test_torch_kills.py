"""torch on many hosts: whoever is killed, workers or whole nodes, training goes on and comes to the same loss."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import Lab
from tests.lab.etcd import Etcd
from tests.lab.nodes import Node
from tests.launching import children, state, wait_until

from .over_hosts import MASTER, PATIENCE, Job, States, needs_lab

SOAK = bool(os.environ.get("FLOTA_SOAK"))
KILLS = 20 if SOAK else 3
SEED = int(os.environ.get("FLOTA_SEED") or (random.randrange(10**6) if SOAK else 9))
WORKERS = {1: 2, 2: 2, 3: 2} if SOAK else {1: 2, 2: 1, 3: 1}  # of each host
TRY_AGAIN = 75
EVERY, PAUSE = 4, 0.05  # steps between two saved states, seconds a step
STRIDE = 3 * EVERY  # steps from one kill to the next
CUTS = KILLS // 5  # of cables
STEPS = (KILLS + CUTS + 1) * STRIDE
START = 5.0  # seconds in which a killed job meets again, and its workers start

pytestmark = [pytest.mark.real, needs_lab, pytest.mark.timeout(120 + 60 * (KILLS + CUTS))]


class Training:
    """A job of three nodes that are killed and started again, as a supervisor would."""

    def __init__(self, lab: Lab, directory: Path, master: str, mortal: tuple[int, ...]) -> None:
        self.states = States(directory / "states")
        words = ("--steps", STEPS, "--every", EVERY, "--pause", PAUSE)
        self.job = Job("torch", lab, directory, "checkpointed.py", self.states.directory, *words)
        self.flags = ("--nnodes", 3, "--master", master, "--max_restart", 100)
        self.lab = lab
        self.mortal = mortal  # hosts whose node may be killed
        self.random = random.Random(SEED)
        self.story = [f"seed {SEED}"]
        self.began = time.monotonic()

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.job.start([number], *self.flags, "--nproc_per_node", WORKERS[number])

    def disturb(self) -> None:
        """Twice in training, each time in a stretch of steps of its own, then once while workers start, and so on."""
        blows = ([self.kill_worker, self.kill_node, self.crash_host] * KILLS)[:KILLS] + [self.cut_host] * CUTS
        self.random.shuffle(blows)
        for number, blow in enumerate(blows):
            self.states.open_gate((number + 1) * STRIDE)
            if number % 3 == 2:
                self.dawdle(START)
            else:
                self.wait(lambda made=number * STRIDE: self.states.newest() > made, f"a step after {number * STRIDE}")
                self.dawdle(STRIDE * PAUSE)
            blow()
        self.states.open_gate(STEPS)

    def kill_worker(self) -> None:
        number, which = self.random.choice(sorted(WORKERS)), self.random.random()
        self.wait(lambda: kill_one(workers_of(self.job.on[number]), which), f"workers on host {number}")
        self.note(f"killed a worker on host {number}")

    def kill_node(self) -> None:
        """flota dies; the shepherd ends its workers."""
        number = self.random.choice(self.mortal)
        self.job.on[number].process.kill()
        self.revive(number, "killed the node")

    def crash_host(self) -> None:
        """Everything there dies, and nobody is left to tell."""
        number = self.random.choice(self.mortal)
        self.job.on[number].host.crash()
        self.revive(number, "crashed all")

    def revive(self, number: int, what: str) -> None:
        node = self.job.on[number]
        assert node.wait() in (-signal.SIGKILL, TRY_AGAIN), node.err
        self.note(f"{what} on host {number}")
        self.dawdle(2.0)
        node.assert_nobody_left()
        self.start(number)
        self.note(f"started a node on host {number}")

    def cut_host(self) -> None:
        """It lives, but nobody hears it: for a moment that no node notices, or for longer than a lease."""
        number = self.random.choice(self.mortal)
        self.lab.cut(number)
        self.note(f"cut host {number}")
        self.dawdle(10.0)
        self.lab.heal(number)
        self.note(f"healed host {number}")

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """With the patience of a supervisor that starts a node again when it asks for that."""
        wait_until(lambda: self.supervise() or condition(), what, PATIENCE)

    def supervise(self) -> None:
        for number, node in self.job.on.items():
            code = node.process.poll()
            assert code in (None, 0, TRY_AGAIN), f"the node on host {number} ended with {code}"
            if code == TRY_AGAIN:
                self.start(number)
                self.note(f"started a node on host {number} again")

    def finish(self) -> None:
        self.wait(lambda: all(node.process.poll() == 0 for node in self.job.on.values()), "the end of the training")
        self.job.finish()

    def dawdle(self, longest: float) -> None:
        """Any moment will do: whatever is under way then is disturbed."""
        time.sleep(self.random.uniform(0, longest))

    def rounds(self) -> set[str]:
        """Rounds that a node has started."""
        return {found for node in self.job.nodes.started for found in re.findall(r"round \d+: ", node.err)}

    def note(self, what: str) -> None:
        self.story.append(f"{time.monotonic() - self.began:.1f} s, step {self.states.newest()}: {what}")


def workers_of(node: Node) -> list[int]:
    shepherds = children(node.process.pid)
    return [worker for shepherd in shepherds for worker in children(shepherd) if state(worker) not in "ZX"]


def kill_one(pids: list[int], which: float) -> bool:
    """Kill the one at this part of the list, if it is there."""
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[int(which * len(pids))], signal.SIGKILL)
            return True
    return False


def check(training: Training, loss: str) -> None:
    world = sum(WORKERS.values())
    expected = f"RESULT world={world} loss={loss}"
    try:
        training.start(*WORKERS)
        training.disturb()
        training.finish()

        assert training.job.results() == {rank: [expected] for rank in range(world)}
        for log in training.job.nodes.directory.glob("host*/log/workerlog.*"):
            assert "TWICE" not in log.read_text()
        assert len(training.rounds()) <= KILLS + CUTS + 1  # a blow costs one round at the most
    except BaseException as error:
        for line in (*training.story, *training.job.story()):
            error.add_note(line)
        raise


@pytest.mark.parametrize("store", ["master", "etcd"] if SOAK else ["etcd"])
def test_kills_do_not_change_the_loss(tmp_path, undisturbed, store):
    with Lab(4 if store == "etcd" else 3) as lab:
        master = f"etcd://{Etcd(lab.hosts[3:], tmp_path).addresses[0]}" if store == "etcd" else MASTER
        mortal = (1, 2, 3) if store == "etcd" else (2, 3)  # without the node of the master there is no job
        check(Training(lab, tmp_path, master, mortal=mortal), undisturbed(STEPS))
