"""Held ports: nobody else is given them, and the worker they are for can use them."""

from __future__ import annotations

import json
import os
import socket

import pytest

from flota.errors import ForeignAddress, PortInUse, TooFewPorts
from flota.host.ports import check_own_address, hold_exactly, hold_free, keep_other_users_out, port_of, release
from tests.launching import wait_until


@pytest.fixture
def held():
    holders = hold_free(4, "127.0.0.1")
    yield holders
    release(holders)


def serve(host, port, *options, family=socket.AF_INET):
    with socket.socket(family) as server:
        for option in options:
            server.setsockopt(socket.SOL_SOCKET, option, 1)
        server.bind((host, port))
        server.listen()
        with socket.create_connection(("127.0.0.1" if family == socket.AF_INET else "::1", port), timeout=5):
            return True


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    "options", [(socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)]
)
def test_the_worker_can_serve_on_a_held_port(held, host, options):
    assert serve(host, int(port_of(held[0])), *options)


def test_also_on_all_ipv6_addresses(held):
    assert serve("::", int(port_of(held[0])), socket.SO_REUSEADDR, family=socket.AF_INET6)


NOBODY = 65534
A, P = socket.SO_REUSEADDR, socket.SO_REUSEPORT
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")


def can_listen_as(user, host, port, *options):
    """Whether a process of this user can listen on the port. It may not be able to import anything."""
    pid = os.fork()
    if not pid:
        try:
            os.setresuid(user, user, user)
            server = socket.socket()
            for option in options:
                server.setsockopt(socket.SOL_SOCKET, option, 1)
            server.bind((host, port))
            server.listen()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("options", [(), (A,), (P,), (A, P)], ids=["none", "address", "port", "both"])
def test_a_port_shared_by_reuseport_alone_keeps_other_users_out(held, host, options):
    port = int(port_of(held[0]))

    keep_other_users_out(held[0])

    assert not can_listen_as(NOBODY, host, port, *options)
    assert can_listen_as(0, host, port, *options) is (P in options)


@needs_root
def test_other_users_can_take_a_port_that_is_shared_by_reuseaddr(held):
    """The limit that SECURITY.md names. If it fails, the kernel keeps them out, and the documents must say so."""
    port = int(port_of(held[0]))

    assert can_listen_as(NOBODY, "127.0.0.1", port, A)
    assert not can_listen_as(NOBODY, "127.0.0.1", port, P)


@needs_root
def test_other_users_cannot_take_the_port_of_jaxs_coordinator(flota):
    (flota.directory / "waits.py").write_text(
        "import os, time\nopen('jax', 'w').write(os.environ['JAX_COORDINATOR_ADDRESS'] + ' ')\ntime.sleep(60)"
    )
    flota.start("waits.py").wait_for("jax")
    wait_until(lambda: (flota.directory / "jax").read_text().endswith(" "), "the address")
    port = int((flota.directory / "jax").read_text().rpartition(":")[2])

    assert not can_listen_as(NOBODY, "127.0.0.1", port, A, P)
    assert can_listen_as(0, "127.0.0.1", port, A, P)


def test_another_process_without_options_is_refused(held):
    with pytest.raises(OSError, match="in use"):
        serve("127.0.0.1", int(port_of(held[0])))


def test_two_jobs_never_hold_the_same_port_of_a_range(held):
    port = int(port_of(held[0]))

    with pytest.raises(PortInUse):
        hold_exactly([port], "127.0.0.1")
    with pytest.raises(TooFewPorts):
        hold_free(1, "127.0.0.1", (port, port))


def free_ports(count):
    holders = hold_free(count, "127.0.0.1")
    ports = [int(port_of(holder)) for holder in holders]
    release(holders)
    return ports


def test_two_addresses_of_one_machine_can_hold_the_same_chosen_port():
    (port,) = free_ports(1)
    one = hold_exactly([port], "127.0.0.1")

    other = hold_exactly([port], "127.0.0.2")

    with pytest.raises(PortInUse):
        hold_exactly([port], "127.0.0.2")
    with pytest.raises(TooFewPorts):
        hold_free(1, "127.0.0.1", (port, port))
    release([*one, *other])


@pytest.mark.parametrize(("address", "is_free"), [("127.0.0.1", False), ("0.0.0.0", False), ("127.0.0.2", True)])
def test_a_chosen_port_is_in_use_if_a_server_has_it_at_the_same_address(address, is_free):
    with socket.socket() as server:
        server.bind((address, 0))
        server.listen()
        port = server.getsockname()[1]

        if is_free:
            release(hold_exactly([port], "127.0.0.1"))
        else:
            with pytest.raises(PortInUse):
                hold_exactly([port], "127.0.0.1")


def test_two_nodes_on_one_machine_can_use_the_same_start_port(flota):
    master, port = free_ports(2)
    hosts = ("127.0.0.1", "127.0.0.2")
    words = ("--ips", ",".join(hosts), "--master", f"127.0.0.1:{master}", "--start_port", port, "dumps_env.py")

    nodes = [flota.start("--host", host, *words) for host in hosts]

    ends = [node.output() for node in nodes]
    assert [node.process.returncode for node in nodes] == [0, 0], ends
    env = json.loads((flota.directory / "dump.1.json").read_text())["env"]
    assert env["PADDLE_TRAINER_ENDPOINTS"] == f"127.0.0.1:{port},127.0.0.2:{port}"


def test_the_kernel_gives_a_held_port_to_no_process(held):
    taken = {int(port_of(holder)) for holder in held}
    others = hold_free(500, "127.0.0.1")

    assert not taken & {int(port_of(holder)) for holder in others}
    release(others)


def test_a_range_is_searched_for_free_ports(held):
    low = int(port_of(held[0]))

    found = hold_free(3, "127.0.0.1", (low, min(low + 50, 65535)))

    assert all(low < int(port_of(holder)) for holder in found)
    release(found)


def test_too_few_ports_release_those_found():
    with pytest.raises(TooFewPorts, match="10 free ports are needed"):
        hold_free(10, "127.0.0.1", (65530, 65535))
    release(hold_free(1, "127.0.0.1", (65530, 65535)))


def test_own_addresses_are_known():
    check_own_address("127.0.0.1")
    check_own_address("::1")
    with pytest.raises(ForeignAddress):
        check_own_address("203.0.113.1")


def test_a_jobs_ports_are_held_for_as_long_as_it_runs(flota):
    code = "import os, pathlib, time\npathlib.Path('port').write_text(os.environ['MASTER_PORT'] + ' ')\ntime.sleep(600)"
    (flota.directory / "w.py").write_text(code)
    running = flota.start("w.py")
    running.wait_for("port")
    wait_until(lambda: (flota.directory / "port").read_text().endswith(" "), "the port's number")
    port = int((flota.directory / "port").read_text())

    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    assert serve("127.0.0.1", port, socket.SO_REUSEADDR)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_restart_waits_for_a_port_that_the_user_has_chosen(flota, stopped):
    (holder,) = hold_free(1, "127.0.0.1")
    port = port_of(holder)
    release([holder])
    running = flota.start("--start_port", port, "--max_restart", 1, "--grace", 20, "fails_at_first.py")
    running.wait_for("here")

    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", int(port)))
        stranger.listen()
        (flota.directory / "go").touch()
        words = f"port {port} is in use by pid {os.getpid()}"
        wait_until(
            lambda: list(flota.directory.glob("log/default.*.log")), "flota's own log, which comes after the worker"
        )
        (own_log,) = flota.directory.glob("log/default.*.log")
        wait_until(lambda: words in own_log.read_text(), "a restart that waits")
        if stopped:
            running.process.terminate()
            assert running.wait() == 143
    assert running.wait() == (143 if stopped else 0)
    assert own_log.read_text().count("s to restart") == 1
