"""The hosts of a job: from `--hosts a,b:8,gpu[01-16]`, groups in the config file, and hostfiles. Pure."""

from __future__ import annotations

from flota.errors.hosts import BadHostfileLine, BadHosts, EmptyHostfile
from flota.job.hostlist import expand_hosts
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SLOTS = "slots"  # of Open MPI and DeepSpeed
IGNORED = ("max_slots", "max-slots")  # of Open MPI


class SshHost(NamedTuple):
    """One host, as ssh knows it: a name, an address or an alias, with or without a user."""

    name: str
    workers: int | None = None  # None: as the other flags say

    @property
    def label(self) -> str:
        """For messages and file names."""
        return self.name.rpartition("@")[2].replace("/", "_")


def read_hosts(source: str, text: str, groups: Mapping[str, object]) -> tuple[SshHost, ...]:
    """Parse the value of --hosts. `groups`: lists of hosts by name; `lab:8` is 8 workers on each host of `lab`."""
    try:
        hosts = [one for word in _split(text) for one in _expand_group(word, groups)]
    except ValueError as error:
        raise BadHosts(source, text, str(error)) from None
    names = [host.name for host in hosts]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise BadHosts(source, text, f"{twice} occurs twice")
    return tuple(hosts)


def _split(text: str) -> list[SshHost]:
    return [_split_count(word) for word in expand_hosts(text)]


def _expand_group(host: SshHost, groups: Mapping[str, object]) -> list[SshHost]:
    if host.name not in groups:
        return [host]
    content = groups[host.name]
    text = ",".join(map(str, content)) if isinstance(content, list) else content
    if not isinstance(text, str):
        raise ValueError(f"the group `{host.name}` is not a list of hosts")
    return [one._replace(workers=host.workers or one.workers) for one in _split(text)]


def _split_count(word: str) -> SshHost:
    """Split `host:8`. A word with several colons is an IPv6 address."""
    name, colon, count = word.partition(":")
    if word.count(":") > 1 or not colon:
        name, count = word, ""
    elif not count.isdecimal() or int(count) < 1:
        raise ValueError(f"`{count}` is not a number of workers")
    if not name or name.startswith("-") or any(letter.isspace() for letter in name):
        raise ValueError(f"`{word}` is not a host")  # ssh would take -oProxyCommand=… for an option
    return SshHost(name, int(count) if count else None)


def read_hostfile(path: str, text: str) -> tuple[SshHost, ...]:
    """Parse a hostfile of Open MPI or DeepSpeed (`gpu01 slots=8`), or a plain one. A host that is listed several times,
    as in the node file of PBS, has as many workers."""
    slots: dict[str, int | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            host = _split_count(words[0])
            count = _slots(words[1:]) or host.workers
        except ValueError as error:
            raise BadHostfileLine(path, number, str(error)) from None
        again = host.name in slots
        slots[host.name] = (slots[host.name] or 1) + (count or 1) if again else count
    if not slots:
        raise EmptyHostfile(path)
    return tuple(SshHost(name, count) for name, count in slots.items())


def _slots(words: list[str]) -> int | None:
    found = None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in (SLOTS, *IGNORED):
            raise ValueError(f"`{word}` is not slots=N")
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f"`{word}` has no number of workers")
        if key == SLOTS:
            found = int(value)
    return found
