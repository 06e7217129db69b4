"""What a failed worker said last."""

from __future__ import annotations

import json
import os
import traceback

import pytest

from flota.failures.diagnosis import Evidence
from flota.failures.last_output import last_lines, last_output, read_tail, recorded_exception, shorten

TRACE = [
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "    step()",
    "ValueError: boom",
]


FIRST = [*TRACE[:-1], "KeyError: 'a'", "", "During handling of the above exception, another exception occurred:", ""]
REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused"
GLOO = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer"


def said(*lines, code=1):
    return list(last_output([list(lines)], Evidence(code)).said)


def test_the_last_traceback_wins():
    assert said("x", *TRACE[:-1], "KeyError: old", "handled", *TRACE) == TRACE


def test_no_traceback():
    assert said("one", "", "two") == ["one", "two"]


def test_of_a_chain_the_last_exception_is_shown_and_the_first_is_named():
    words = last_output([[*FIRST, *TRACE]], Evidence(1))

    assert words.said == (*TRACE, "first: KeyError: 'a'")
    assert (words.raised, words.root) == ("ValueError: boom", "KeyError: 'a'")


@pytest.mark.parametrize("loss", [REFUSED, GLOO])
def test_an_exception_in_a_clean_up_is_not_the_cause(loss):
    words = last_output([[*FIRST, *TRACE[:-1], loss]], Evidence(1))

    assert words.said == (*TRACE[:-1], "KeyError: 'a'", f"then: {loss}")
    assert (words.raised, words.root) == ("KeyError: 'a'", "KeyError: 'a'")


def test_a_prefix_that_a_framework_puts_before_each_line_is_dropped():
    lines = [f"[rank1]: {line}".rstrip() for line in (*FIRST, *TRACE, "more of it", "", "and more")]

    words = last_output([["ok", *lines, "[rank1]:[W1116 ProcessGroup.cpp] not destroyed"]], Evidence(1))

    assert words.said == (*TRACE, "more of it", "and more", "first: KeyError: 'a'")
    assert words.tail == ("more of it", "and more")


def test_an_exception_in_a_data_loader_is_found_behind_a_prefix():
    inner = ["RuntimeError: Caught ValueError in DataLoader worker process 0.", f"Original {TRACE[0]}", *TRACE[1:]]
    lines = [f"[rank1]: {line}" for line in (*TRACE[:-1], *inner)]

    assert last_output([lines], Evidence(1)).raised == "ValueError: boom"


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        (["\tMissing key: a", "\tMissing key: b"], ["\tMissing key: a", "\tMissing key: b"]),
        (["while reading shard 17"], ["while reading shard 17"]),
        (["one", "", "two", "three", "four"], ["one", "two", "three", "four"]),
        (["one", "two", "three", "four", "five"], ["one", "two", "three", "  …"]),
        (["[W Module.cpp:1] leak", "[rank1]:[E1116 12:00:00 Group.cpp:1] left", "W1116 12:00 x.cc:1] y", "wandb: bye"], []),
        (["[INFO] bye", "[Epoch 3]", "[rank1]: ended", "Error"], ["[INFO] bye", "[Epoch 3]", "[rank1]: ended", "Error"]),
        (["Exception ignored in: <function f>", *TRACE[:-1], "AttributeError: x"], []),
        (["Error in atexit._run_exitfuncs:", *TRACE[:-1], "OSError: x", "bye"], []),
    ],
)  # fmt: skip
def test_messages_and_notes_of_several_lines_go_on(more, shown):
    assert said(*TRACE, *more) == [*TRACE, *shown]


def test_the_summary_is_what_tells_in_paddles_messages():
    lines = [*TRACE[:-1], "SystemError: ", "", "-----", "C++ Traceback (most recent call last):", "-----", "0   paddle::f()", "-----", "Error Message Summary:", "-----", "OutOfRange: ", "", "too far"]  # fmt: skip

    assert said(*lines) == [*TRACE[:-1], "SystemError: ", "OutOfRange: ", "too far"]


def test_a_group_is_named_and_its_exceptions_are_shown():
    def make(error):
        try:
            raise error
        except Exception as raised:
            return raised

    group = make(ExceptionGroup("many", [make(ConnectionResetError("a")), make(ExceptionGroup("in", [make(TypeError("b"))]))]))  # fmt: skip
    lines = "".join(traceback.format_exception(group)).split("\n")

    for prefix in ("", "[rank1]: "):
        words = last_output([["x", *(f"{prefix}{line}".rstrip() for line in lines)]], Evidence(1))
        assert words.raised == "ExceptionGroup: many (2 sub-exceptions)"
        assert words.root == "ConnectionResetError: a"
        assert words.said[0] == "Exception Group Traceback (most recent call last):"
        assert words.said[-4:] == (words.raised, words.root, "ExceptionGroup: in (1 sub-exception)", "TypeError: b")


def test_output_after_a_traceback_means_that_it_was_caught():
    words = last_output([[*TRACE, "falling back"]], Evidence(3))

    assert (words.said[-1], words.raised, words.tail) == ("falling back", "", ("falling back",))


def test_of_a_native_fault_the_innermost_frames_are_shown():
    frames = [f'  File "train.py", line {number} in f' for number in range(40)]
    fatal = ["Fatal Python error: Segmentation fault", "", "Current thread 0x7f (most recent call first):", *frames]

    assert said("step 3", *fatal, "", "Extension modules: numpy", code=-11) == [fatal[0], fatal[2], *frames[:6]]


def test_what_is_recorded_is_printable(tmp_path):
    text = "\n".join([*TRACE, "\x1b[2Jmore\r\x07 \x1b[31mred\x1b[0m"])

    (tmp_path / "error.json").write_text(json.dumps({"message": text}))

    assert recorded_exception(str(tmp_path / "error.json"), Evidence(1)).said == (*TRACE, "more red")


def test_long_tracebacks_keep_their_first_and_last_lines():
    long = [TRACE[0], *(f"  line {number}" for number in range(50)), TRACE[-1]]

    short = shorten(long, 11)

    assert len(short) == 11
    assert (short[0], short[1], short[-1]) == (TRACE[0], "  …", TRACE[-1])


def test_if_there_is_no_room_the_last_line_is_kept():
    assert [shorten(TRACE, most) for most in (3, 2, 1, 0)] == [
        [TRACE[0], "  …", TRACE[-1]],
        TRACE[-2:],
        TRACE[-1:],
        TRACE[-1:],
    ]


def test_wide_lines_are_cut():
    assert len(shorten(["x" * 1000], 5)[0]) == 200


def test_last_lines_skip_empty_ones():
    assert last_lines(["a", "", "b", ""], 2) == ["a", "b"]


def test_reading_starts_where_the_round_does(tmp_path):
    log = tmp_path / "log"
    log.write_text("old\nnew 1\nnew 2\n")

    assert read_tail(str(log), 4) == ["new 1", "new 2", ""]


def test_reading_a_large_log_begins_at_a_whole_line(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100000)))

    lines = read_tail(str(log), 0)

    assert lines[-2] == "line 99999"
    assert lines[0].startswith("line ")


def test_a_missing_log_is_empty(tmp_path):
    assert read_tail(str(tmp_path / "none"), 0) == []


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
@pytest.mark.parametrize(
    "text", ["ValueError: got\rhidden", "ValueError: got\r\x1b[Khidden\r", "ValueError: got\rhidden\r\n"]
)
def test_a_carriage_return_in_an_exception_hides_nothing(tmp_path, prefix, text):
    log = tmp_path / "log"
    log.write_bytes("\n".join([f"{prefix}{line}" for line in (*TRACE[:-1], text)]).encode())

    words = last_output([read_tail(str(log), 0)], Evidence(1))

    assert words.raised == "ValueError: got hidden"


def test_of_a_progress_bar_before_and_after_a_traceback_the_last_state_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_bytes("\n".join(["a: 1%\ra: 2%", *TRACE, "b: 1%\rb: 2%"]).encode())

    assert read_tail(str(log), 0) == ["a: 2%", *TRACE, "b: 2%"]


def test_a_recorded_exception_that_is_not_a_file_is_ignored(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "deep").write_text('{"message":' * 100_000)

    assert recorded_exception(str(tmp_path / "fifo"), Evidence(1)) is None
    assert recorded_exception(str(tmp_path / "deep"), Evidence(1)) is None
