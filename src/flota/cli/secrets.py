"""What opens the store, from variables and files. Never from flags, which everyone on the machine can see."""

from __future__ import annotations

import os
import stat

from flota.cli.settings import Settings
from flota.errors import BadToken, Contradiction, OnlyWith, UnreadableFile
from flota.job.nodes import Secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN, USER, PASSWORD = "FLOTA_TOKEN", "FLOTA_ETCD_USER", "FLOTA_ETCD_PASSWORD"


def read_secrets(settings: Settings, environ: Mapping[str, str], *, etcd: bool) -> Secrets:
    certificate, key, authority = (_path(settings, dest) for dest in ("tls_cert", "tls_key", "tls_ca"))
    if certificate and not key:
        raise OnlyWith(settings.source("tls_cert"), "--tls-key")
    if key and not certificate:
        raise OnlyWith(settings.source("tls_key"), "--tls-cert")
    user, password = (environ.get(USER, ""), _secret(environ, PASSWORD)) if etcd else ("", "")
    if user and not password:
        raise OnlyWith(USER, PASSWORD)
    if password and not user:
        raise OnlyWith(PASSWORD, USER)
    return Secrets(_token(environ), user, password, certificate, key, authority)


def notes_on_secrets(environ: Mapping[str, str]) -> list[str]:
    """Files that are less secret than what is in them."""
    return [
        f"{variable} can be read by everyone on this machine: run `chmod 600 {environ[variable]}`"
        for variable in (f"{TOKEN}_FILE", f"{PASSWORD}_FILE")
        if environ.get(variable) and _is_open_to_others(environ[variable])
    ]


def _is_open_to_others(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False  # whoever reads it says so


def _path(settings: Settings, dest: str) -> str:
    path = str(settings[dest] or "")
    if path:
        _read(settings.source(dest), path)
    return path


def _token(environ: Mapping[str, str]) -> str:
    token = _secret(environ, TOKEN)
    source = f"{TOKEN}_FILE" if environ.get(f"{TOKEN}_FILE") else TOKEN
    wanted = environ.get(TOKEN) or environ.get(f"{TOKEN}_FILE")
    # It travels in a header, where such characters would end or change it.
    if wanted and not (token and all("!" <= character <= "~" for character in token)):
        raise BadToken(source)
    return token


def _secret(environ: Mapping[str, str], variable: str) -> str:
    value, path = environ.get(variable, ""), environ.get(f"{variable}_FILE", "")
    if value and path:
        raise Contradiction(variable, f"{variable}_FILE", "both hold the same secret")
    if not path:
        return value
    try:
        return _read(f"{variable}_FILE", path).decode().strip()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{variable}_FILE", path, "not text") from None


def _read(source: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise UnreadableFile(source, path, error.strerror or "unreadable") from None
