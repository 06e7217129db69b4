import pytest

from flota.cli.listen_address import read_address
from flota.cli.parse import parse


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("on", ("127.0.0.1", 0)),
        ("off", None),
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:0", ("127.0.0.1", 0)),
    ],
)
def test_addresses(word, address):
    assert read_address(word) == address


@pytest.mark.parametrize(
    "word", ["", "here", "1.2.3:80", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "host:80", "²"]
)
def test_anything_else_is_refused(word):
    with pytest.raises(ValueError):  # noqa: PT011  its text is not shown
        read_address(word)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--dashboard", "train.py"], ("127.0.0.1", 0)),
        (["--dashboard", "8080", "train.py"], ("127.0.0.1", 8080)),
        (["--dashboard", "0.0.0.0:80", "train.py"], ("0.0.0.0", 80)),
        (["--dashboard=:80", "train.py"], ("127.0.0.1", 80)),
    ],
)
def test_the_address_is_optional(words, value):
    line = parse(words)

    assert (line.given["dashboard"].value, line.script) == (value, "train.py")
