"""Which requests of browsers are answered: those for this server's own address, from its own page. Pure."""

from __future__ import annotations

from ipaddress import ip_address

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_own_host(host: str, names: frozenset[str]) -> bool:
    """Whether the Host header is an address or one of these names.

    A page of an attacker can make its own name resolve to this machine. Then its requests carry that name.
    """
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name.lower() in names
    return True


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a request comes from a page of this server, by its Origin and Host headers."""
    return bool(host) and origin in (f"http://{host}", f"https://{host}")


def read_cookie(header: str, name: str) -> str:
    """The value of a cookie; empty if there is none."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for known, _, value in pairs if known == name), "")
