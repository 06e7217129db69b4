"""Stacks as py-spy and faulthandler tell them, what ranks wait on in them, and who stands out."""

from __future__ import annotations

import json

import pytest

from flota.hangs.stack_dump import (
    LOCK,
    PIPE,
    RUNNING,
    SLEEP,
    SOCKET,
    Frame,
    Sample,
    Stack,
    Task,
    parse_faulthandler,
    parse_spy,
    stacks_in_words,
)
from flota.hangs.suspects import find_suspects, groups_in_words, suspects_in_words
from flota.hangs.wait_sites import COLLECTIVE, ELSEWHERE, ENDED, HALTED, WAITS, RankPosition, position_of

TORCH = "/venv/lib/python3.11/site-packages/torch"
ALL_REDUCE = (
    Frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 2810),
    Frame("wrapper", f"{TORCH}/distributed/c10d_logger.py", 81),
    Frame("step", "/job/train.py", 88),
    Frame("<module>", "/job/train.py", 120),
)
BACKWARD = (
    Frame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 824),
    Frame("backward", f"{TORCH}/autograd/__init__.py", 347),
    Frame("Tensor.backward", f"{TORCH}/_tensor.py", 581),
    Frame("step", "/job/train.py", 90),
)
LOADER = (
    Frame("select", "/usr/lib/python3.11/selectors.py", 415),
    Frame("wait", "/usr/lib/python3.11/multiprocessing/connection.py", 930),
    Frame("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 113),
    Frame("_MultiProcessingDataLoaderIter._try_get_data", f"{TORCH}/utils/data/dataloader.py", 1132),
    Frame("__next__", f"{TORCH}/utils/data/dataloader.py", 630),
    Frame("batches", "/job/data.py", 41),
    Frame("<module>", "/job/train.py", 120),
)
TENSORFLOW = "/venv/lib/python3.11/site-packages/tensorflow/python"
TF_LOADER = (
    Frame("iterator_get_next", f"{TENSORFLOW}/ops/gen_dataset_ops.py", 3017),
    Frame("OwnedIterator._next_internal", f"{TENSORFLOW}/data/ops/iterator_ops.py", 773),
    Frame("OwnedIterator.__next__", f"{TENSORFLOW}/data/ops/iterator_ops.py", 810),
    Frame("batches", "/job/data.py", 41),
)
SHARED_TENSORS = (
    Frame("rebuild_storage_fd", f"{TORCH}/multiprocessing/reductions.py", 500),
    *LOADER[2:],
)
SPAWN = (
    Frame("wait", "/usr/lib/python3.11/multiprocessing/connection.py", 930),
    Frame("ProcessContext.join", f"{TORCH}/multiprocessing/spawn.py", 130),
    Frame("<module>", "/job/train.py", 120),
)


def rank_at(frames, rank=0, **facts):
    kind, words = position_of(Sample(100 + rank, (Stack("MainThread", frames),), **facts))
    return RankPosition(rank, kind, words)


def thread(name, number, frames, **facts):
    rows = [
        {"name": function, "filename": file, "short_filename": file, "module": None, "line": line, "locals": variables}
        for function, file, line, variables in frames
    ]
    return {
        "pid": 7,
        "thread_name": name,
        "os_thread_id": number,
        "active": True,
        "owns_gil": False,
        **facts,
        "frames": rows,
    }


def test_py_spys_words_become_frames():
    x = {"name": "x", "addr": 1, "arg": False, "repr": "1"}
    text = json.dumps(
        [
            thread("Thread-1", 8, [("run", "/job/a.py", 3, None)]),
            thread("MainThread", 7, [("f", "/job/a.py", 9, [x]), ("<module>", "/job/a.py", 12, [])], owns_gil=True),
        ]
    )

    other, main = parse_spy(text)

    assert (other.thread, main.thread) == ("Thread-1", "MainThread")
    assert main.has_gil and not other.has_gil
    assert [(frame.function, frame.line) for frame in main.frames] == [("f", 9), ("<module>", 12)]
    assert main.frames[0].variables and not main.frames[1].variables


def test_a_nameless_thread_is_the_main_one_if_its_number_is_the_process():
    assert parse_spy(json.dumps([thread(None, 7, [("f", "/job/a.py", 9, None)])]))[0].thread == "MainThread"
    assert parse_spy(json.dumps([thread(None, 8, [("f", "/job/a.py", 9, None)])]))[0].thread == "thread 8"


NO_FRAMES = '[{"thread_name": "MainThread", "os_thread_id": 1, "pid": 1, "owns_gil": false, "frames": null}]'


@pytest.mark.parametrize("text", ["", "Permission Denied", "[1]", "{}", '[{"frames": 3}]', NO_FRAMES])
def test_invalid_dumps_have_no_stack(text):
    assert parse_spy(text) == ()


def test_faulthandlers_words_become_frames():
    lines = """epoch 3
Fatal Python error: Aborted

Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/job/data.py", line 12 in fetch

Current thread 0x00007f2 (most recent call first):
  File "/job/train.py", line 88 in step
  File "/job/train.py", line 120 in <module>

Extension modules: numpy._core (total: 1)""".split("\n")

    other, main = parse_faulthandler(lines)

    assert main == Stack("MainThread", (Frame("step", "/job/train.py", 88), Frame("<module>", "/job/train.py", 120)))
    assert other.frames[1] == Frame("fetch", "/job/data.py", 12)


def test_of_several_dumps_the_last_one_counts():
    dump = [
        "Fatal Python error: Aborted",
        "",
        "Current thread 0x1 (most recent call first):",
        '  File "a.py", line {} in f',
    ]

    stacks = parse_faulthandler([line.format(number) for number in (1, 2) for line in dump])

    assert [frame.line for stack in stacks for frame in stack.frames] == [2]


def test_a_log_without_a_dump_has_no_stack():
    assert parse_faulthandler(["epoch 1", 'File "x"']) == ()


@pytest.mark.parametrize(
    ("frames", "facts", "kind", "words"),
    [
        (ALL_REDUCE, {"call": RUNNING}, COLLECTIVE, "in all_reduce at train.py:88"),
        (BACKWARD, {"call": LOCK}, COLLECTIVE, "in backward at train.py:90"),
        (LOADER, {"call": SOCKET}, ELSEWHERE, "in next(loader) at data.py:41"),
        (TF_LOADER, {"call": LOCK}, ELSEWHERE, "in next(loader) at data.py:41"),
        (SHARED_TENSORS, {"call": SOCKET}, ELSEWHERE, "in next(loader) at data.py:41"),
        (SHARED_TENSORS[:1] + SPAWN[2:], {"call": SOCKET}, WAITS, "waiting on a socket in <module> at train.py:120"),
        (SPAWN, {"call": SOCKET}, ELSEWHERE, "waiting for a child process at train.py:120"),
        (ALL_REDUCE[2:], {"call": SLEEP}, ELSEWHERE, "asleep in step at train.py:88"),
        (ALL_REDUCE[2:], {"call": LOCK}, ELSEWHERE, "waiting for a lock in step at train.py:88"),
        (ALL_REDUCE[2:], {"call": SOCKET}, WAITS, "waiting on a socket in step at train.py:88"),
        (ALL_REDUCE[2:], {"call": PIPE}, ELSEWHERE, "blocked on a pipe in step at train.py:88"),
        (ALL_REDUCE[2:], {"call": RUNNING}, ELSEWHERE, "busy in step at train.py:88"),
        (ALL_REDUCE[2:], {"call": SLEEP, "state": "T"}, HALTED, "stopped by a signal, asleep in step at train.py:88"),
        (
            (Frame("step", "/job/train.py", 5, text="loss.item()"),),
            {"call": RUNNING},
            COLLECTIVE,
            "in `loss.item()` at train.py:5",
        ),
    ],
)
def test_a_rank_is_where_the_users_own_code_is(frames, facts, kind, words):
    position = rank_at(frames, **facts)

    assert (position.kind, position.words) == (kind, words)


def test_a_rank_that_waits_with_the_gil_is_named_for_it():
    main = Stack("MainThread", (Frame("step", "/job/train.py", 5),), has_gil=True)

    assert position_of(Sample(1, (main,), call=SLEEP))[1] == "holding the GIL in step at train.py:5"


def test_a_thread_that_keeps_the_gil_from_the_main_one_is_the_place():
    main = Stack("MainThread", (Frame("step", "/job/train.py", 5),))
    other = Stack("Thread-1", (Frame("fetch", "/job/data.py", 9),), has_gil=True)

    assert position_of(Sample(1, (other, main), call=LOCK))[1] == "holding the GIL in fetch at data.py:9"


def test_a_main_thread_that_waits_for_another_is_not_the_place():
    main = Stack(
        "MainThread", (Frame("join", "/usr/lib/python3.11/threading.py", 5), Frame("main", "/job/train.py", 5))
    )
    other = Stack("Thread-1", (Frame("train", "/job/train.py", 9),), task=Task(SLEEP))

    assert position_of(Sample(1, (other, main), call=LOCK))[1] == "asleep in train at train.py:9"


def test_a_thread_that_only_sleeps_now_and_then_is_not_what_the_main_one_waits_for():
    main = Stack(
        "MainThread",
        (
            Frame("wait", "/usr/lib/python3.11/threading.py", 5),
            Frame("get", "/usr/lib/python3.11/queue.py", 7),
            Frame("main", "/job/train.py", 5),
        ),
    )
    monitor = Stack("Thread-1", (Frame("watch", "/job/train.py", 9),), task=Task(SLEEP))
    other = Stack("Thread-3", (main.frames[0], Frame("watch", "/job/train.py", 9)), task=Task(LOCK))
    reader = Stack("Thread-2", (Frame("fetch", "/job/data.py", 9),), task=Task(SOCKET))

    assert position_of(Sample(1, (monitor, other, main), call=LOCK))[1] == "in Queue.get at train.py:5"
    assert position_of(Sample(1, (monitor, reader, main), call=LOCK))[1] == (
        "waiting on a socket in fetch at data.py:9"
    )


WAITPID = (
    Frame("Popen.wait", "/usr/lib/python3.11/subprocess.py", 1264),
    Frame("call", "/usr/lib/python3.11/subprocess.py", 391),
    Frame("<module>", "/job/wrapper.py", 2),
)


def test_a_rank_that_waits_for_a_child_is_where_the_child_is():
    tracker = Sample(11, (Stack("MainThread", (Frame("main", "<string>", 1),)),), call=PIPE)
    wrapper = Sample(12, (Stack("MainThread", WAITPID),))
    trains = Sample(13, (Stack("MainThread", ALL_REDUCE),), call=RUNNING)
    rank = Sample(10, (Stack("MainThread", WAITPID),), children=(tracker, wrapper, trains))

    assert position_of(rank) == (COLLECTIVE, "in all_reduce at train.py:88")
    assert position_of(rank._replace(children=(trains._replace(state="T"),)))[0] == HALTED
    assert position_of(rank._replace(state="T"))[0] == HALTED
    assert position_of(rank._replace(children=(tracker, wrapper)))[1] == "waiting for a child process at wrapper.py:2"


def test_a_child_that_no_thread_waits_for_is_not_the_position():
    loader = Sample(11, (Stack("MainThread", LOADER),))

    assert position_of(Sample(10, (Stack("MainThread", ALL_REDUCE),), children=(loader,)))[0] == COLLECTIVE


def test_a_process_without_a_stack_is_described_by_what_it_waits_for():
    assert position_of(Sample(1, call=SOCKET))[0] == WAITS
    assert position_of(Sample(1, call=SLEEP))[1] == "asleep"


def positions(*kinds, words=None):
    return tuple(
        RankPosition(rank, kind, (words or {}).get(rank, f"in {kind} at x.py:1")) for rank, kind in enumerate(kinds)
    )


def suspects(*kinds, words=None):
    return [one.rank for one in find_suspects(positions(*kinds, words=words))]


C, W, E, H, L = COLLECTIVE, WAITS, ELSEWHERE, HALTED, ENDED


@pytest.mark.parametrize(
    ("kinds", "words", "expected"),
    [
        ((C, C, C, E), None, [3]),
        ((W, E), None, [1]),
        ((W, W, H, E), None, [2]),
        ((C, C, L), None, [2]),
        ((C, L), None, [1]),
        ((W, L, L), None, [1, 2]),
        ((W,), None, []),
        ((L, L, L, E), None, [3]),  # the others have ended well
        ((C, C, C, C), None, []),
        ((C, C, C, C), {2: "in broadcast at train.py:60"}, [2]),
        ((C, C), {1: "in broadcast at train.py:60"}, []),
        ((W, W, W, W), {0: "waiting on a socket in gather at x.py:9"}, []),  # it may be the root of a tree
        ((W, W, W, W), {2: "waiting on a socket in fetch at x.py:9"}, [2]),
        ((W, W, W), {1: "waiting on a socket in fetch at x.py:9"}, [1]),
        ((W, W, W, W), {1: "in x at x.py:9", 2: "in x at x.py:9"}, []),  # as many as inner ranks of a tree
        ((W, W, W, W, W, W), {1: "in x at x.py:9", 2: "in y at x.py:12"}, []),
        ((W, W), {1: "waiting on a socket in fetch at x.py:9"}, []),
        ((C, W, C), None, [1]),  # at somebody else's socket
        ((C, W, C, E), None, [1, 3]),
        ((C, W), None, [1]),
        ((E, E, E, E), {3: "asleep in f at y.py:2"}, [3]),
        ((E, E, E, E), {2: "a", 3: "b"}, []),
        ((E, E), None, []),
        ((H, H), None, []),
        ((E,), None, [0]),
        ((H,), None, [0]),
        ((), None, []),
    ],
)
def test_a_rank_that_is_elsewhere_blocks_the_others(kinds, words, expected):
    assert suspects(*kinds, words=words) == expected


def test_servers_wait_elsewhere_than_trainers():
    trainers = tuple(RankPosition(rank, WAITS, "in pull at x.py:1") for rank in range(1, 5))
    server = RankPosition(1, WAITS, "in serve at y.py:1", role="server")

    assert find_suspects((*trainers, server)) == ()


def test_groups_are_listed_the_largest_first():
    eight = tuple(rank_at(LOADER if rank == 3 else ALL_REDUCE, rank) for rank in range(8))

    assert groups_in_words(eight) == (
        "7 of 8 ranks: in all_reduce at train.py:88",
        "rank 3: in next(loader) at data.py:41",
    )
    assert suspects_in_words(eight) == "rank 3 blocks the others"


def test_hosts_are_named_where_there_are_several():
    both = (RankPosition(0, C, "in x", host="gpu1"), RankPosition(1, C, "in x", host="gpu2"))

    assert suspects_in_words(both) == (
        "no rank stands out: all are waiting for each other; check the network between gpu1 and gpu2"
    )


def test_many_places_are_cut_short():
    lines = groups_in_words(tuple(RankPosition(rank, E, f"at {rank}") for rank in range(20)))

    assert lines[0] == "rank 0: at 0" and lines[-1] == "14 more elsewhere"


def test_a_file_of_stacks_has_the_main_thread_first():
    stacks = (
        Stack("Thread-1", (Frame("f", "/a.py", 1),)),
        Stack("MainThread", (Frame("g", "/a.py", 2),), has_gil=True),
    )

    assert stacks_in_words(stacks) == [
        "  MainThread (has the GIL)",
        "    g (/a.py:2)",
        "  Thread-1",
        "    f (/a.py:1)",
    ]
