"""What the kernel says of a thread: of this process, which may be looked at everywhere."""

from __future__ import annotations

import os
import platform
import socket
import threading
from math import inf

import pytest

from flota.hangs.procfs import task_of
from flota.hangs.stack_dump import LOCK, SOCKET
from tests.launching import wait_until


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def waiting(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def look(thread):
    return task_of(os.getpid(), thread.native_id)


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [
        (None, inf),
        pytest.param(
            30.0, 30.0, marks=pytest.mark.skipif(platform.machine() != "x86_64", reason="there it is a place in memory")
        ),
    ],
)
def test_a_wait_at_a_socket_has_a_limit(pair, seconds, limit):
    here, there = pair
    here.settimeout(seconds)
    thread = waiting(lambda: here.recv(1))

    wait_until(lambda: look(thread).call == SOCKET, "a thread to wait at a socket")

    assert look(thread).limit == pytest.approx(limit, abs=0.1)
    there.sendall(b"x")
    thread.join()


def test_a_thread_that_something_comes_for_is_woken(pair):
    here, there = pair
    thread = waiting(lambda: [here.recv(1) for _ in range(3)])
    wait_until(lambda: look(thread).call == SOCKET, "a thread to wait at a socket")
    before = look(thread).wakes

    there.sendall(b"x")
    wait_until(lambda: look(thread).wakes > before, "it to be woken")

    there.sendall(b"xx")
    thread.join()


def test_a_thread_waits_for_a_lock():
    done = threading.Event()
    thread = waiting(done.wait)

    wait_until(lambda: look(thread).call == LOCK, "a thread to wait for a lock")

    done.set()
    thread.join()


def test_of_a_thread_that_is_gone_nothing_is_known():
    assert (task_of(os.getpid(), 1 << 30).call, task_of(os.getpid(), 1 << 30).wakes) == ("", 0)
