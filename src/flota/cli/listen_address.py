"""Reads the value of --dashboard. Few jobs have it, so this is not part of convert.py. Pure."""

from __future__ import annotations

from ipaddress import ip_address

from flota.cli.convert import FALSE, LAST_PORT, TRUE

LOOPBACK = "127.0.0.1"


def read_address(word: str) -> tuple[str, int] | None:
    """ADDR:PORT or PORT; `on`: any free port of the loopback address; `off`: None. Raises ValueError."""
    if word.lower() in TRUE:
        return LOOPBACK, 0
    if word.lower() in FALSE:
        return None
    host, _, port = word.rpartition(":")
    host = {"": LOOPBACK, "localhost": LOOPBACK}.get(host) or str(ip_address(host.strip("[]")))
    if not port.isascii() or not port.isdecimal() or int(port) > LAST_PORT:
        raise ValueError
    return host, int(port)
