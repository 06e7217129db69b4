"""Reads a job's secrets from variables and files, never from flags, which everyone on the machine can see."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from flota import errors
from flota.cli.settings import Settings
from flota.job.nodes import Secrets

TLS_FILES = ("tls_cert", "tls_key", "tls_ca")
TOKEN, USER, PASSWORD = "FLOTA_TOKEN", "FLOTA_ETCD_USER", "FLOTA_ETCD_PASSWORD"


def read_secrets(settings: Settings, environ: Mapping[str, str], *, etcd: bool) -> Secrets:
    certificate, key, authority = paths = [settings[dest] or "" for dest in TLS_FILES]
    for dest, path in zip(TLS_FILES, paths, strict=True):
        if path:
            _read_file(settings.source(dest), path)
    if certificate and not key:
        raise errors.OnlyWith(settings.source("tls_cert"), "--tls-key")
    if key and not certificate:
        raise errors.OnlyWith(settings.source("tls_key"), "--tls-cert")
    user, password = (environ.get(USER, ""), _secret(environ, PASSWORD)) if etcd else ("", "")
    if user and not password:
        raise errors.OnlyWith(USER, PASSWORD)
    if password and not user:
        raise errors.OnlyWith(PASSWORD, USER)
    return Secrets(read_token(environ), user, password, certificate, key, authority)


def is_open_to_others(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False  # reported when the file is read


def read_token(environ: Mapping[str, str]) -> str:
    """The job's token; empty if none is given."""
    token = _secret(environ, TOKEN)
    source = next(filter(environ.get, (f"{TOKEN}_FILE", TOKEN)), "")
    # It is sent in a header, where other characters would be misread.
    if source and not (token and all("!" <= character <= "~" for character in token)):
        raise errors.BadToken(source)
    return token


def _secret(environ: Mapping[str, str], variable: str) -> str:
    value, path = environ.get(variable, ""), environ.get(f"{variable}_FILE", "")
    if value and path:
        raise errors.Contradiction(variable, f"{variable}_FILE", "both set the same secret")
    if not path:
        return value
    try:
        return _read_file(f"{variable}_FILE", path).decode().strip()
    except UnicodeDecodeError:
        raise errors.UnreadableFile(f"{variable}_FILE", path, "not text") from None


def _read_file(source: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise errors.UnreadableFile(source, path, error.strerror or "unreadable") from None
