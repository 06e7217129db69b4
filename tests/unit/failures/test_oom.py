"""What the kernel ended for memory, from files like those of Linux."""

from __future__ import annotations

import pytest

from flota.failures.oom import ALL_PROCESSES, RECENT, MemoryWatch
from flota.free_memory import available, find_cgroup
from flota.run.evidence import FailureEvidence
from flota.supervise.events import WorkerExited

V1 = "9:name=systemd:/\n4:memory:/jobs/7\n0::/\n"
V2 = "0::/jobs/7\n"
COUNTED = "1 OOM kill in its cgroup in the last few minutes"
RECORD = "3,2,2,-;Memory cgroup out of memory: Killed process {} (python) total-vm:9kB\n"


@pytest.fixture
def machine(tmp_path):
    """Makes a machine with a cgroup of this version, which counts so many kills."""

    def make(version, kills=0, where="jobs/7", namespace=ALL_PROCESSES):
        (tmp_path / "proc" / "self" / "ns").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / "self" / "ns" / "pid").unlink(missing_ok=True)
        (tmp_path / "proc" / "self" / "ns" / "pid").symlink_to(namespace)
        (tmp_path / "proc" / "self" / "cgroup").write_text(V1 if version == 1 else V2)
        (tmp_path / "proc" / "meminfo").write_text("MemTotal: 25165824 kB\nMemAvailable: 12582912 kB\n")
        group = tmp_path / "cgroup" / ("memory" if version == 1 else ".") / where
        group.mkdir(parents=True, exist_ok=True)
        if version == 1:
            (group / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
            (group / "memory.limit_in_bytes").write_text(f"{64 << 20}\n")
            (group / "memory.max_usage_in_bytes").write_text(f"{63 << 20}\n")
        else:
            (group / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom 1\noom_kill {kills}\n")
            (group / "memory.max").write_text("max\n")
        return {"proc": str(tmp_path / "proc"), "cgroups": str(tmp_path / "cgroup"), "log": str(tmp_path / "kmsg")}

    return make


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("where", ["jobs/7", "."])
def test_a_count_that_rose_in_the_round_is_a_kill(machine, version, where):
    watch = MemoryWatch(**machine(version, 3, where))
    before = watch.evidence_for(11)

    machine(version, 4, where)

    assert (before.killed, before.counted) == ("", True)
    assert watch.evidence_for(11).killed == COUNTED
    assert watch.evidence_for(12).killed == COUNTED, "more than one may be killed at once"


def test_a_kill_of_long_ago_was_anothers(machine):
    watch = MemoryWatch(**machine(2, 3))
    watch.forget_old_kills(RECENT)

    machine(2, 4)  # a data loader's
    claimed = []
    for minute in range(2, 5):
        watch.forget_old_kills(minute * RECENT)
        claimed.append(watch.evidence_for(11).killed)

    assert claimed == [COUNTED, "", ""]


def test_what_was_counted_before_the_first_failure_is_not_forgotten(machine):
    ending = FailureEvidence(spec=None, began=0.0)
    ending._memory = MemoryWatch(**machine(2, 3))

    machine(2, 4)
    ending.exits[0] = WorkerExited(0, 1, asked_to_stop=False, at=1.0)
    for minute in range(1, 5):
        ending.on_time(minute * RECENT)
    after = ending._memory.evidence_for(11).killed
    ending.exits[0] = WorkerExited(0, 0, asked_to_stop=False, at=1.0)
    for minute in range(5, 9):
        ending.on_time(minute * RECENT)

    assert (after, ending._memory.evidence_for(11).killed) == (COUNTED, "")


@pytest.mark.parametrize("pids", [(12,), (12, 13)])
def test_a_worker_named_in_the_kernels_log_was_killed(machine, tmp_path, pids):
    (tmp_path / "kmsg").write_text(RECORD.format(11))  # in an earlier round
    watch = MemoryWatch(**machine(2))

    with (tmp_path / "kmsg").open("a") as log:
        log.writelines(RECORD.format(pid) for pid in pids)

    killed = {pid: watch.evidence_for(pid).killed for pid in (11, 12, 13)}
    assert killed == {pid: "the kernel's log names it" if pid in pids else "" for pid in killed}
    watch.close()


@pytest.mark.parametrize(
    ("pid", "lines", "namespace", "killed"),
    [
        (11, [RECORD.format(12)], ALL_PROCESSES, ""),
        (0, [RECORD.format(12)], ALL_PROCESSES, COUNTED),
        (11, ["6,1,1,-;eth0: link is up\n"], ALL_PROCESSES, COUNTED),
        (11, [RECORD.format(12)], "pid:[4026532211]", COUNTED),
        (12, [RECORD.format(12)], "pid:[4026532211]", COUNTED),
    ],
    ids=["another's", "of no number", "not logged", "numbers of others", "another's of this number"],
)
def test_where_the_log_names_others_a_count_says_nothing(machine, tmp_path, pid, lines, namespace, killed):
    """In a container the log has numbers that are nobody's here."""
    (tmp_path / "kmsg").touch()
    watch = MemoryWatch(**machine(2, 3, namespace=namespace))

    machine(2, 4, namespace=namespace)
    with (tmp_path / "kmsg").open("a") as log:
        log.writelines(lines)

    assert watch.evidence_for(pid).killed == killed
    watch.close()


def test_limit_and_peak_and_the_machines_memory_are_reported(machine):
    with_limit = MemoryWatch(**machine(1)).evidence_for(1).words

    assert with_limit == "cgroup limit 64 MiB, peak 63 MiB; machine: 12.0 GiB of 24.0 GiB available"


def test_a_missing_limit_is_not_reported(machine):
    assert MemoryWatch(**machine(2)).evidence_for(1).words == "machine: 12.0 GiB of 24.0 GiB available"


def test_without_counters_the_evidence_says_so(tmp_path):
    nowhere = str(tmp_path)

    evidence = MemoryWatch(nowhere, nowhere, f"{nowhere}/kmsg").evidence_for(1)

    assert (evidence.killed, evidence.counted, evidence.words) == ("", False, "")
    assert find_cgroup(nowhere, nowhere) == ("", 0)


def test_there_is_some_memory_to_spare():
    with open("/proc/meminfo") as file:
        total = int(file.readline().split()[1]) * 1024

    assert 0 < available() <= total
