from __future__ import annotations

import pytest

from flota.control.log_stream import CHUNK, LogStream


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "workerlog.0"
    path.write_bytes(b"one\ntwo\n")
    return path


def read_all(stream: LogStream) -> bytes:
    parts = []
    while not stream.ended:
        parts.append(stream.read())
    return b"".join(parts)


@pytest.mark.parametrize(
    ("offset", "text"),
    [(0, b"one\ntwo\n"), (4, b"two\n"), (-4, b"two\n"), (-100, b"one\ntwo\n"), (100, b""), (8, b"")],
)
def test_a_log_is_read_from_an_offset_to_its_end(log, offset, text):
    stream = LogStream(str(log), offset, follow=False)

    assert read_all(stream) == text
    stream.close()


def test_what_is_written_meanwhile_is_not_read_without_follow(log):
    stream = LogStream(str(log), 0, follow=False)

    with log.open("ab") as file:
        file.write(b"three\n")

    assert read_all(stream) == b"one\ntwo\n"
    stream.close()


def test_a_large_log_is_read_in_parts(log):
    log.write_bytes(b"x" * (2 * CHUNK + 1))
    stream = LogStream(str(log), 0, follow=False)

    assert [len(stream.read()) for _ in range(4)] == [CHUNK, CHUNK, 1, 0]
    assert stream.ended
    stream.close()


def test_a_followed_log_has_no_end(log):
    stream = LogStream(str(log), -4, follow=True)
    assert (stream.read(), stream.read()) == (b"two\n", b"")

    with log.open("ab") as file:
        file.write(b"three\n")

    assert (stream.read(), stream.ended) == (b"three\n", False)
    stream.close()


def test_a_rotated_log_goes_on_in_the_new_file(log):
    stream = LogStream(str(log), 0, follow=True)
    stream.read()

    log.rename(log.with_suffix(".1"))
    assert stream.read() == b""  # there is no new file yet
    log.write_bytes(b"new\n")

    assert (stream.read(), stream.read()) == (b"", b"new\n")
    stream.close()


def test_a_truncated_log_goes_on_at_its_beginning(log):
    stream = LogStream(str(log), 0, follow=True)
    stream.read()

    log.write_bytes(b"new\n")

    assert (stream.read(), stream.read()) == (b"", b"new\n")
    stream.close()
