"""Lists of hosts in Slurm's notation: any list that can be written is read back, and any text ends quickly."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from flota.job.hostlist import MOST_HOSTS, expand_hosts

names = st.from_regex(r"[a-z][a-z0-9.-]{0,6}[a-z]", fullmatch=True)
widths = st.integers(1, 4)


@st.composite
def ranges(draw):
    """One range as Slurm writes it, and its numbers."""
    width, first, count = draw(widths), draw(st.integers(0, 9999)), draw(st.integers(1, 20))
    numbers = [str(number).zfill(width) for number in range(first, first + count)]
    return (numbers[0] if count == 1 else f"{numbers[0]}-{numbers[-1]}"), numbers


@st.composite
def lists(draw):
    words, hosts = [], []
    for name in draw(st.lists(names, min_size=1, max_size=5)):
        within = draw(st.lists(ranges(), max_size=3))
        words.append(f"{name}[{','.join(text for text, _ in within)}]" if within else name)
        hosts += [f"{name}{number}" for _, numbers in within for number in numbers] if within else [name]
    return ",".join(words), hosts


@given(lists())
def test_what_slurm_writes_is_read(written):
    text, hosts = written

    assert expand_hosts(text) == hosts


@given(st.text(alphabet="ab01[],- ", max_size=30))
@example("a[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]")
@example("a[0-65535][0-65535]")
def test_any_text_is_a_list_of_names_or_an_error(text):
    with contextlib.suppress(ValueError):
        hosts = expand_hosts(text)
        assert 0 < len(hosts) <= MOST_HOSTS
        assert all(hosts) and not any(set(host) & set("[],") for host in hosts)
