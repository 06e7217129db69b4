"""The lab keeps its promises: hosts meet, fail and part as told, and nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import Lab, missing
from tests.lab.hosts import Host
from tests.launching import DEADLINE, state, wait_until

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

QUICK = 0.3  # far longer than a frame takes here, far shorter than TCP's own patience


@pytest.fixture
def lab():
    with Lab(4) as lab:
        yield lab


def listen(host: Host, address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return host.call(socket.create_server, (address, 0), family=family)


def connect(host: Host, server: socket.socket, timeout: float = 5.0) -> socket.socket:
    return host.call(socket.create_connection, server.getsockname()[:2], timeout)


def has_way(one: Host, other: Host) -> bool:
    with listen(other, other.address) as server:
        try:
            connect(one, server, QUICK).close()
        except OSError:
            return False
        return True


def wait_for_way(one: Host, other: Host) -> None:
    """A kernel that asked in vain for a neighbour's hardware address asks again after a second."""
    wait_until(lambda: has_way(one, other), f"a way from {one.name} to {other.name}")


def networks() -> set[int]:
    """The network namespaces that some thread lives in or some process holds open."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            paths = [*process.glob("task/*/ns/net"), *process.glob("fd/*")]
        except OSError:
            continue  # it has exited
        for path in paths:
            with contextlib.suppress(OSError):
                if os.readlink(path).startswith("net:"):
                    found.add(path.stat().st_ino)
    return found


@pytest.mark.parametrize("family", ["address", "address6"])
def test_hosts_reach_each_other(lab, family):
    with listen(lab.host(2), getattr(lab.host(2), family)) as server, connect(lab.host(1), server) as client:
        seen = server.accept()
        with seen[0]:
            client.sendall(b"hello")

            assert (seen[0].recv(5), seen[1][0]) == (b"hello", getattr(lab.host(1), family))


def test_names_lead_to_hosts(lab):
    script = "import socket; print(socket.gethostname(), socket.gethostbyname('host3'), socket.gethostbyname('host1'))"

    said = lab.host(3).run([sys.executable, "-c", script]).stdout

    assert said == "host3 10.77.0.3 10.77.0.1\n"


LOOKS_UP = """
import socket, time
begun = time.monotonic()
try:
    socket.gethostbyname("nobody.invalid")
except OSError:
    print(time.monotonic() - begun)
"""


def test_an_unknown_name_is_refused_at_once(lab):
    result = lab.host(1).run([sys.executable, "-c", LOOKS_UP])

    assert float(result.stdout) < 4, "a resolver that waits for an answer takes 5 s"


def test_a_host_may_have_an_etc_hosts_like_debians(lab):
    lab.host(1).etc_hosts("127.0.0.1 localhost\n127.0.1.1 host1\n")

    said = [host.run(["getent", "hosts", "host1"]).stdout.split()[0] for host in lab.hosts[:2]]

    assert said == ["127.0.1.1", "10.77.0.1"]
    assert "127.0.1.1 host1\n" not in Path("/etc/hosts").read_text()


@pytest.mark.parametrize(("world", "family"), [("192.0.2.1", "address"), ("2001:db8::1", "address6")])
def test_the_way_into_the_world_begins_at_eth0_and_leads_nowhere(lab, world, family):
    kind = socket.AF_INET6 if ":" in world else socket.AF_INET
    with lab.host(2).call(socket.socket, kind, socket.SOCK_DGRAM) as probe:
        probe.connect((world, 9))

        assert probe.getsockname()[0] == getattr(lab.host(2), family)
    assert lab._switch.run(["ip", "route"]).stdout == ""
    assert lab._switch.run(["ip", "-6", "route"]).stdout == ""


def test_a_host_shows_its_own_interfaces_and_the_machines_control_groups(lab):
    assert sorted(lab.host(1).run(["ls", "/sys/class/net"]).stdout.split()) == ["eth0", "lo"]
    assert lab.host(1).call(os.listdir, "/sys/fs/cgroup") == os.listdir("/sys/fs/cgroup")


def test_a_signal_reaches_the_command_itself(lab):
    process = lab.host(1).popen(["sleep", "100"])

    process.send_signal(signal.SIGTERM)

    assert process.wait(DEADLINE) == -signal.SIGTERM


def test_a_command_starts_where_the_test_is(lab, tmp_path):
    assert lab.host(1).run(["pwd"]).stdout.strip() == os.getcwd()
    assert lab.host(1).run(["pwd"], cwd=tmp_path).stdout.strip() == str(tmp_path)


def test_frames_of_a_cut_host_vanish_until_it_is_healed(lab):
    with listen(lab.host(2), lab.host(2).address) as server, connect(lab.host(1), server) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(QUICK)
            lab.cut(2)
            client.sendall(b"late")
            with pytest.raises(TimeoutError):
                accepted.recv(4)

            lab.heal(2)

            accepted.settimeout(10)
            assert accepted.recv(4) == b"late"


@pytest.mark.parametrize(("carrier", "said"), [(False, "1"), (True, "0")])
def test_only_a_pulled_cable_is_seen_by_the_host(lab, carrier, said):
    lab.cut(2, carrier=carrier)

    seen = lab.host(2).call(Path("/sys/class/net/eth0/carrier").read_text).strip()
    assert (seen, has_way(lab.host(1), lab.host(2))) == (said, False)
    lab.heal()
    wait_for_way(lab.host(1), lab.host(2))


def test_a_partition_keeps_groups_apart_and_together(lab):
    lab.partition([1, 2], [3, 4])

    assert not any(has_way(lab.host(a), lab.host(b)) for a, b in [(1, 3), (4, 2)])
    wait_for_way(lab.host(1), lab.host(2))
    wait_for_way(lab.host(3), lab.host(4))
    lab.heal()
    wait_for_way(lab.host(1), lab.host(3))
    wait_for_way(lab.host(4), lab.host(2))


def test_hosts_that_a_partition_does_not_name_stay_together(lab):
    lab.partition([1])

    assert not has_way(lab.host(1), lab.host(2))
    wait_for_way(lab.host(2), lab.host(3))


def test_a_shaped_host_is_slow_to_answer(lab):
    with listen(lab.host(2), lab.host(2).address) as server:
        lab.shape(2, delay_ms=60, jitter_ms=5)
        connect(lab.host(1), server).close()  # the first one asks for the hardware address as well

        def seconds() -> float:
            begun = time.monotonic()
            connect(lab.host(1), server).close()
            return time.monotonic() - begun

        assert seconds() >= 0.11
        lab.unshape(2)

        wait_until(lambda: seconds() < 0.11, "a fast answer")  # the machine may be busy with other tests


def test_a_line_has_the_rate_it_was_given(lab):
    lab.shape(2, rate_mbit=20)

    took = send(lab.host(1), lab.host(2), 1_000_000)

    assert took >= 0.35


def test_a_lossy_line_loses_nothing_for_good(lab):
    lab.shape(2, loss_percent=2, delay_ms=1)

    send(lab.host(1), lab.host(2), 500_000)


def send(one: Host, other: Host, size: int) -> float:
    """How long it takes until the last byte is there."""
    with listen(other, other.address) as server:
        dial = f"import socket; s = socket.create_connection(('{other.address}', {server.getsockname()[1]}))"
        process = one.popen([sys.executable, "-c", f"{dial}; s.recv(1); s.sendall(bytes({size}))"])
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(30)
            begun, left = time.monotonic(), size
            accepted.sendall(b"x")
            while left:
                left -= len(accepted.recv(min(left, 65536)))
            took = time.monotonic() - begun
    process.wait(DEADLINE)
    return took


def test_a_shape_survives_a_cut_and_a_cut_survives_a_shape(lab):
    lab.shape(2, delay_ms=1)
    lab.cut(2)
    lab.shape(2, delay_ms=2)
    assert not has_way(lab.host(1), lab.host(2))
    lab.unshape(2)
    assert not has_way(lab.host(1), lab.host(2))
    lab.shape(2, delay_ms=1)
    lab.cut(2, carrier=True)
    assert not has_way(lab.host(1), lab.host(2))

    lab.heal()

    wait_for_way(lab.host(1), lab.host(2))


def test_a_crash_ends_all_on_one_host_and_nothing_elsewhere(lab):
    crashed = lab.host(1).popen(["sh", "-c", "setsid sleep 100 & trap '' TERM; sleep 101; true"])
    spared = lab.host(2).popen(["sleep", "100"])
    wait_until(lambda: len(lab.host(1).processes()) == 3, "the shell and its children")

    lab.crash(1)

    assert (crashed.wait(DEADLINE), lab.host(1).processes(), spared.poll()) == (-signal.SIGKILL, [], None)


def test_nothing_is_left_after_the_end():
    with Lab(2) as lab:
        lab.shape(1, delay_ms=1)
        process = lab.host(1).popen(["sh", "-c", "setsid sleep 100 & sleep 101"], stdout=subprocess.PIPE)
        wait_until(lambda: len(lab.host(1).processes()) == 3, "the shell and its children")
        inodes = {place.inode for place in lab._places}
        pids = [pid for place in lab._places for pid in place.processes()]
        directory = lab.directory
        assert (len(pids), len(inodes & networks())) == (4, 3)

    assert process.returncode == -signal.SIGKILL
    assert [pid for pid in pids if state(pid) not in "ZX"] == []
    wait_until(lambda: not inodes & networks(), "its networks' end")  # their numbers may be another lab's for a while
    assert not directory.exists()
    assert str(directory) not in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_owner_is_ended(end):
    code = """
import time
from tests.lab import Lab
with Lab(1) as lab:
    process = lab.host(1).popen(["sh", "-c", "setsid sleep 100 & sleep 101"])
    print(lab.directory, lab.host(1).inode, flush=True)
    time.sleep(100)
"""
    argv, root = [sys.executable, "-c", code], Path(__file__).parents[2]
    owner = subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with owner:
        directory, inode = owner.stdout.readline().split()
        assert int(inode) in networks()

        owner.send_signal(end)
        owner.wait(DEADLINE)

        wait_until(lambda: int(inode) not in networks() and not Path(directory).exists(), "the lab's end")


def test_a_lab_without_its_guard_ends_all_the_same():
    with Lab(1) as lab:
        process = lab.host(1).popen(["sleep", "100"])
        lab._guard.kill()

    assert process.returncode == -signal.SIGKILL


def test_labs_with_the_same_addresses_do_not_interfere(lab):
    with Lab(2) as other, listen(lab.host(2), lab.host(2).address) as server, pytest.raises(ConnectionRefusedError):
        connect(other.host(1), server)
