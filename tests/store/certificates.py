"""Certificates for tests, made with the openssl command: an authority, what it signs, and TLS contexts with them."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def authority(directory: Path) -> None:
    """ca.pem and ca.key."""
    _openssl(directory, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /O=lab -keyout ca.key -out ca.pem")


def sign(directory: Path, name: str, subject: str = "/O=lab", names: str = "IP:127.0.0.1,DNS:localhost") -> None:
    """NAME.pem and NAME.key, good for 127.0.0.1 and localhost, or other names."""
    (directory / "ext").write_text(f"subjectAltName={names}\n")
    _openssl(directory, f"req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr")
    _openssl(
        directory,
        f"x509 -req -days 2 -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile ext -out {name}.pem",
    )


def server_context(directory, *, wants_client: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=directory / "ca.pem")
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if wants_client else ssl.CERT_NONE
    return context


def client_context(directory, *, own: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    if own:
        context.load_cert_chain(directory / "client.pem", directory / "client.key")
    return context


def _openssl(directory: Path, words: str) -> None:
    subprocess.run(["openssl", *words.split()], cwd=directory, check=True, capture_output=True)
