"""When a job hangs, and when it is only quiet."""

from __future__ import annotations

from math import inf

import pytest

from flota.hangs.detector import AUTO_MIN, AUTO_START, HangDetector, Signs
from flota.hangs.question import IDLE_PART_AFTER_EXIT
from flota.hangs.stack_dump import DISK, LOCK, RUNNING, SLEEP, SOCKET, Frame, Sample, Stack, Task
from flota.job.spec import LEARNT

TIMEOUT = 12.0
LIBRARY = "/usr/lib/python3.11"
TORCH = "/venv/lib/python3.11/site-packages/torch"
TENSORFLOW = "/venv/lib/python3.11/site-packages/tensorflow/python"


def frame(function="train", line=10, file="/job/train.py", variables=0, text=""):
    return Frame(function, file, line, variables, text)


def sample(*frames, pid=100, has_gil=False, **facts):
    return Sample(pid, (Stack("MainThread", frames or (frame(),), has_gil),), **facts)


def at_socket(frames, wakes, limit=inf):
    return Sample(100, (Stack("MainThread", frames, number=100, task=Task(SOCKET, int(wakes), limit)),), call=SOCKET)


def with_thread(*frames, call=RUNNING, wakes=0, main=(), **facts):
    """A main thread that waits for what another does."""
    other = Stack("Thread-1", frames, number=101, task=Task(call, int(wakes), inf))
    waiting = (frame("wait", 320, f"{LIBRARY}/threading.py"), *(main or (frame("main", 5),)))
    return Sample(100, (other, Stack("MainThread", waiting, number=100, task=Task(LOCK))), call=LOCK, **facts)


def play(samples, *, setting=TIMEOUT, signs=None, seconds=30.0, on_devices=False):
    """When the hang is found, in seconds after the beginning; None: it is not. `samples`: by time, for each worker."""
    hangs = HangDetector(setting, 0.0, on_devices=on_devices)
    now = 0.0
    while now < seconds:
        now = hangs.deadline
        told = signs(now) if signs else Signs({0: -1}, {0: 0.0}, 0)
        if hangs.check(now, told) and hangs.sampled(now, samples(now)):
            return now
    return None


def test_a_stuck_job_is_found_within_twice_the_timeout():
    found = play(lambda _: {0: sample(), 1: sample(pid=101)})

    assert TIMEOUT <= found <= 1.4 * TIMEOUT


@pytest.mark.parametrize("setting", [2.0, 60.0, 3600.0])
def test_any_timeout_is_kept(setting):
    found = play(lambda _: {0: sample()}, setting=setting, seconds=2 * setting)

    assert setting <= found <= 1.4 * setting


def test_output_is_a_sign_of_life():
    assert play(lambda _: {0: sample()}, signs=lambda now: Signs({0: -1}, {0: 0.0}, int(now / 5)), seconds=100) is None


def test_heartbeats_without_steps_are_signs_of_life():
    assert play(lambda _: {0: sample()}, signs=lambda now: Signs({0: -1}, {0: now - 1}, 0), seconds=100) is None


def test_with_steps_output_is_not_a_sign_of_life():
    def signs(now):
        return Signs({0: 7, 1: 7}, {0: now, 1: now}, int(now * 100))

    assert play(lambda _: {0: sample(), 1: sample()}, signs=signs) <= 2 * TIMEOUT


def test_one_rank_that_advances_keeps_the_job_alive():
    def signs(now):
        return Signs({0: 7, 1: int(now / 6)}, {0: 1.0, 1: now - now % 6}, 0)

    assert play(lambda _: {0: sample(), 1: sample()}, signs=signs, seconds=100) is None


def test_one_rank_at_work_is_enough():
    def samples(now):
        return {0: sample(), 1: sample(written=int(now * 2e6))}

    assert play(samples, seconds=100) is None


@pytest.mark.parametrize(
    "at_work",
    [
        lambda now: sample(frame("forward", int(now * 10) % 7), frame("evaluate", 30)),
        lambda now: sample(frame(f"layer{int(now * 7) % 3}", 4), frame("evaluate", 30)),
        lambda now: sample(frame("evaluate", 30, variables=int(now * 10))),
        lambda now: sample() if int(now * 2) % 2 else Sample(100),
        lambda _: sample(frame("save", 3), call=DISK, state="D"),
        lambda now: sample(read=int(now * 4e6)),
        lambda now: sample(frame("evaluate", 3, text="x = x @ w"), call=RUNNING, cpu=now),
        lambda now: sample(frame("compress", 600, f"{LIBRARY}/gzip.py"), frame(), call=RUNNING, cpu=now),
        lambda now: sample(
            frame("_engine_run_backward", 8, f"{TORCH}/autograd/graph.py"), frame(), call=RUNNING, cpu=now
        ),
        lambda now: sample(frame("encode", text="ids = tokenizer(texts)"), call=LOCK, cpu=2 * now),
        lambda now: sample(
            frame("iterator_get_next", 9, f"{TENSORFLOW}/ops/gen_dataset_ops.py"),
            frame("__next__", 9, f"{TENSORFLOW}/data/ops/iterator_ops.py"),
            frame(),
            call=LOCK,
            cpu=2 * now,
        ),
        lambda now: sample(frame("save", text="data = pickle.dumps(x)"), call=RUNNING, cpu=now, has_gil=True),
        lambda now: sample(
            frame("shuffle", 383, f"{LIBRARY}/random.py", variables=int(now * 9)), frame(), call=RUNNING, cpu=now
        ),
        lambda now: sample(frame("evaluate", variables=int(now * 9)), call=SLEEP, cpu=now / 5),
        lambda now: with_thread(frame("score", 9, text="kdf(x)"), cpu=now),
        lambda now: with_thread(frame("score"), cpu=now, main=(frame("main", 5, text="done.wait()"),)),
        lambda now: with_thread(frame("score", variables=int(now * 9)), call=LOCK, cpu=now),  # for the GIL
        lambda now: with_thread(frame("fetch", 9), call=SOCKET, wakes=now * 5),
        lambda now: at_socket((frame("readinto", 700, f"{LIBRARY}/socket.py"), frame()), now * 5),
        lambda now: at_socket((frame("upload"),), now * 5),
        lambda now: at_socket((frame("fetch"),), now * 5, limit=30.0),
        lambda now: sample(
            frame("backend_compile", 3, "/x/site-packages/jax/_src/compiler.py"), frame(), call=RUNNING, cpu=now
        ),
        lambda now: sample(children=(Sample(7, name="cc1plus", cpu=now / 2),)),
        lambda now: sample(children=(Sample(int(now), name="cc1plus"),)),
        lambda now: sample(children=(sample(frame("load", variables=int(now * 9)), pid=8, name="python"),)),
    ],
    ids=(
        "stack functions variables unreadable disk reads computes library backward native-threads native-loader gil library-loop "
        "sleeps-between thread thread-event thread-gil thread-fetches receives sends receives-in-time compiles child children loader"
    ).split(),
)
def test_a_silent_rank_at_work_is_not_a_hang(at_work):
    assert play(lambda now: {0: at_work(now), 1: sample(pid=101)}, seconds=200) is None


@pytest.mark.parametrize(
    "waiting",
    [
        lambda _: sample(call=SLEEP),
        lambda _: sample(call=LOCK),
        lambda now: sample(has_gil=True, call=RUNNING, cpu=now),  # a busy loop
        lambda now: sample(frame("wait", 3 + int(now * 10) % 2)),  # to and fro in a loop
        lambda now: sample(frame("wait", 4 if 13 < now < 13.5 else 3)),  # once
        lambda now: sample(frame("step", 3, text="dist.all_reduce(x)"), call=RUNNING, cpu=now),  # spins
        lambda now: sample(
            frame("all_reduce", 3, f"{TORCH}/distributed/distributed_c10d.py"), frame(), call=RUNNING, cpu=now
        ),
        lambda now: sample(frame("step", 3, text="comm.Allreduce(x, y)"), call=RUNNING, cpu=now),
        lambda now: sample(frame(text="while not done(): pass"), call=RUNNING, cpu=now, has_gil=True),
        lambda now: sample(frame(text="lock.acquire()"), call=LOCK, cpu=now),  # and a thread that spins
        lambda now: sample(frame("poll", variables=int(now * 9)), call=SLEEP, cpu=now / 1000),
        lambda now: sample(  # on a loaded machine it has to wait for a CPU, too
            frame("poll", variables=int(now * 9)), call=RUNNING if int(now * 2) % 5 == 0 else SLEEP, cpu=now / 1000
        ),
        lambda now: with_thread(frame("watch", variables=int(now * 9)), call=SLEEP, cpu=now / 1000),
        lambda now: with_thread(
            frame("wait", 3, f"{LIBRARY}/threading.py"), frame("watch", variables=int(now * 9)), call=LOCK
        ),
        lambda now: with_thread(
            frame("watch", variables=int(now * 9)), call=SOCKET if int(now * 2) % 5 == 0 else SLEEP, cpu=now / 1000
        ),
        lambda now: with_thread(
            frame("watch", text="kdf(x)"),
            cpu=now,
            main=(frame("all_reduce", 3, f"{TORCH}/distributed/distributed_c10d.py"), frame()),
        ),
        lambda _: at_socket((frame("receive"),), 3),
        lambda now: at_socket((frame("receive"),), now, limit=1.0),  # each time in vain
        lambda now: at_socket((frame("receive"),), now * 5, limit=0.0),  # who knows
        lambda now: at_socket((frame("recv", 3, f"{TORCH}/distributed/distributed_c10d.py"), frame()), now * 5),
        lambda now: sample(written=int(now * 100)),  # somebody's small file
        lambda _: sample(children=(Sample(7, name="python"), Sample(8, name="python"))),
        lambda _: Sample(100),
    ],
    ids=(
        "sleep lock busy to-and-fro once spins spins-in-torch spins-in-mpi spins-in-a-line lock-and-spinner polls "
        "polls-under-load monitor monitor-waits monitor-sends monitor-in-collective socket socket-in-vain socket-unknown socket-in-torch log loaders blind"
    ).split(),
)
def test_a_rank_that_only_waits_is_a_hang(waiting):
    assert play(lambda now: {0: waiting(now), 1: sample(pid=101)}) <= 2 * TIMEOUT


@pytest.mark.parametrize(
    "at_work",
    [
        lambda now: sample(frame("evaluate", 3, text="x = x @ w"), call=RUNNING, cpu=now),
        lambda now: sample(frame("save", 7, text="data = pickle.dumps(x)"), call=RUNNING, cpu=now, has_gil=True),
        lambda now: sample(frame("save", 7), written=int(now * 2e5)),
        lambda now: sample(frame("encode", text="ids = tokenizer(texts)"), call=LOCK, cpu=now),
    ],
    ids="native gil writes native-threads".split(),
)
@pytest.mark.parametrize("first", [5, 31])
def test_a_rank_that_has_waited_for_another_may_be_next_to_work(at_work, first):
    handover = first * TIMEOUT + 0.1
    barrier = frame("all_reduce", 3, f"{TORCH}/distributed/distributed_c10d.py"), frame("main", 9)

    def samples(now):
        ended = min(now, handover)
        if now < handover:
            return {0: sample(frame("score", text="kdf(x)"), call=RUNNING, cpu=now), 1: sample(*barrier, call=LOCK)}
        return {0: sample(*barrier, call=LOCK, cpu=ended), 1: at_work(now - ended)}

    assert play(samples, seconds=handover + 10 * TIMEOUT) is None


def test_waiting_for_a_device_looks_like_computing():
    def samples(now):
        return {0: sample(frame("step", 3, text="loss = f(x)"), call=RUNNING, cpu=now)}

    assert play(samples, on_devices=True) <= 2 * TIMEOUT


def test_work_that_ends_in_a_hang_is_found_within_twice_the_timeout_of_its_end():
    def samples(now):
        return {0: sample(frame(variables=int(min(now, 20.0) * 10)))}

    assert 20 < play(samples, seconds=100) <= 20 + 2 * TIMEOUT


@pytest.mark.parametrize(
    "doubtful",
    [
        lambda now: sample(frame(variables=int(now * 10))),
        lambda now: sample(children=(Sample(int(now * 5), name="nvidia-smi"),)),
        lambda now: sample(children=(sample(frame("load", variables=int(now * 9)), pid=8, name="python"),)),
    ],
    ids="variables children childs-variables".split(),
)
def test_with_steps_doubtful_work_does_not_count_forever(doubtful):
    def steps(_):
        return Signs({0: 7}, {0: 1.0}, 0)

    assert 5 * TIMEOUT < play(lambda now: {0: doubtful(now)}, signs=steps, seconds=200) <= 6 * TIMEOUT
    assert play(lambda now: {0: doubtful(now)}, seconds=200) is None


def test_with_steps_other_work_counts_for_as_long_as_it_lasts():
    def steps(_):
        return Signs({0: 7}, {0: 1.0}, 0)

    assert play(lambda now: {0: sample(written=int(now * 2e6))}, signs=steps, seconds=200) is None


def test_a_sign_of_life_ends_a_suspected_hang():
    hangs = HangDetector(TIMEOUT, 0.0)
    now = 0.0
    while not hangs.idle:
        now = hangs.deadline
        if hangs.check(now, Signs({0: -1}, {0: 0.0}, 0)):
            hangs.sampled(now, {0: sample()})

    hangs.check(hangs.deadline, Signs({0: -1}, {0: 0.0}, 1))

    assert not hangs.idle


def test_the_reason_why_a_silent_job_does_not_hang_is_printed_once():
    hangs = HangDetector(TIMEOUT, 0.0)
    said = []
    while hangs.deadline < 60:
        now = hangs.deadline
        if hangs.check(now, Signs({0: -1}, {0: 0.0}, 0)):
            hangs.sampled(now, {0: sample(written=int(now * 2e6))})
        said += [hangs.work] if hangs.work else []
        hangs.work = ""

    assert said == ["0 it wrote 1.1 MiB in 0.6 s"]


def learn(signs, seconds):
    """What `auto` makes of these signs, looked at when it wants to."""
    hangs = HangDetector(LEARNT, 0.0)
    hangs.check(0.0, signs(0.0))
    while hangs.deadline < seconds:
        now = hangs.deadline
        assert not hangs.check(now, signs(now))
    return hangs.timeout


def every(pause, now, first=0.0):
    """Steps that are told so often, after a first silence."""
    step = int((now - first) / pause) if now >= first else -1
    return Signs({0: step}, {0: first + step * pause if step >= 0 else 0.0}, 0)


def test_auto_waits_long_for_the_first_word():
    assert learn(lambda _: Signs({0: -1}, {0: 0.0}, 0), AUTO_START - 1) == AUTO_START


@pytest.mark.parametrize("pause", [0.1, 1.0, 20.0])
def test_auto_has_a_floor(pause):
    assert learn(lambda now: every(pause, now), 3600) == AUTO_MIN
    assert learn(lambda now: Signs({0: -1}, {0: 0.0}, int(now / pause)), 3600) == AUTO_MIN


@pytest.mark.parametrize("pause", [100.0, 600.0])
def test_auto_keeps_to_the_rhythm(pause):
    assert 3 * pause <= learn(lambda now: every(pause, now), 7200) < 3.5 * pause


def test_auto_learns_from_a_long_beginning():
    assert 1500 <= learn(lambda now: every(1.0, now, first=500.0), 3600) < 1600


@pytest.mark.parametrize("rhythm", [1.0, 30.0, 50.0])
def test_looks_are_rare_and_cheap_while_there_is_life(rhythm):
    hangs = HangDetector(60.0, 0.0)
    looks = 0

    while hangs.deadline < 600:
        now = hangs.deadline
        looks += 1
        assert not hangs.check(now, Signs({0: -1}, {0: 0.0}, int(now / rhythm)))

    assert looks <= 101


def test_samples_are_rare_while_there_is_work():
    hangs = HangDetector(60.0, 0.0)
    samples = 0

    while hangs.deadline < 660:
        now = hangs.deadline
        if hangs.check(now, Signs({0: -1}, {0: 0.0}, 0)):
            samples += 1
            hangs.sampled(now, {0: sample(written=int(now * 2e6))})

    assert samples <= 50


class Progress:
    """A node whose ranks have stood still for long, while another node is at work."""

    def __init__(self, sample_at):
        self.hangs = HangDetector(TIMEOUT, 0.0)
        self.sample_at = sample_at
        self.samples = 0
        self.stood = []  # what it has told, at each sample

    def until(self, end):
        self.samples = 0
        self.stood = []
        while self.hangs.deadline < end:
            now = self.hangs.deadline
            if self.hangs.check(now, Signs({0: -1}, {0: 0.0}, 0)):
                self.samples += 1
                self.stood.append(self.hangs.sampled(now, {0: self.sample_at(now), 1: sample(pid=101)}))


def test_samples_are_rare_while_other_nodes_work():
    node = Progress(lambda _: sample())
    node.until(2 * TIMEOUT)

    node.until(12 * TIMEOUT)

    assert node.samples <= 41 and all(node.stood)


@pytest.mark.parametrize(
    "at_work",
    [
        lambda now: sample(frame("evaluate", 3, text="x = x @ w"), call=RUNNING, cpu=now),
        lambda now: sample(frame("save", 7, text="data = pickle.dumps(x)"), call=RUNNING, cpu=now, has_gil=True),
        lambda now: sample(frame(f"layer{int(now * 7) % 3}", 4), frame("evaluate", 30)),
    ],
    ids="native gil functions".split(),
)
def test_a_rank_that_continues_after_a_long_wait_is_noticed_in_time(at_work):
    begins = 6 * TIMEOUT + 0.1
    node = Progress(lambda now: at_work(now - begins) if now >= begins else sample(call=SOCKET))
    node.until(begins)
    assert node.hangs.idle

    node.until(begins + IDLE_PART_AFTER_EXIT * TIMEOUT)
    assert not node.hangs.idle
    node.until(begins + 10 * TIMEOUT)
    assert not any(node.stood)


def test_a_loop_that_is_rarely_at_another_line_is_stuck():
    rare = iter(range(10**6))
    node = Progress(lambda _: sample(frame("poll", 4 if next(rare) % 9 == 8 else 3)))
    node.until(2 * TIMEOUT)

    node.until(30 * TIMEOUT)

    assert all(node.stood)
