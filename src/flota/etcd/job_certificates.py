"""Certificates for the nodes of a job, made from its token: nothing has to be distributed.

Every node computes the same CA key from the token, signs a certificate for itself with it, and forgets the key. Who has
the token can do the same, and could join the job anyway. Certificates are made by the openssl command.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from base64 import b64encode
from collections.abc import Iterable
from ipaddress import ip_address
from tempfile import TemporaryDirectory

from flota.errors import NoCertificates
from flota.etcd.member_flags import TlsFiles

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the curve P-256
SALT = b"flota etcd CA"
# Users choose short tokens, and a certificate lets strangers try guesses: make each guess take 16 MB and 30 ms.
SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 48}
# An EC private key in DER (RFC 5915): version 1, the number, and the curve's name; the public key is left out.
BEFORE_NUMBER, CURVE = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")
# Fixed, because the clocks of nodes may differ. `openssl ca` can set the beginning; other commands of it cannot.
VALID = ("-startdate", "20200101000000Z", "-enddate", "20491231235959Z")
CONFIG = """
[ca]
default_ca = job
[job]
database = index
new_certs_dir = .
rand_serial = yes
unique_subject = no
default_md = sha256
policy = names
[names]
commonName = supplied
[req]
distinguished_name = names
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[node]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth, clientAuth
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""
KEY = "/dev/stdin"
SIGN = ("ca", "-batch", "-notext", "-config", "config", *VALID, "-keyfile", KEY)
REQUEST = ("req", "-new", "-config", "config", "-subj")
PATIENCE = 20.0  # seconds for one command


def authority_key(token: str) -> bytes:
    """The CA's private key, in PEM."""
    # A number of 48 bytes, so that the remainder favours no part of the range.
    derived = hashlib.scrypt(token.encode(), salt=SALT, **SCRYPT)
    number = int.from_bytes(derived, "big") % (ORDER - 1) + 1
    key = b64encode(BEFORE_NUMBER + number.to_bytes(32, "big") + CURVE).decode()
    lines = [key[start : start + 64] for start in range(0, len(key), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""]).encode()


def alternative_names(hosts: Iterable[str]) -> str:
    """Host names and addresses, as openssl's configuration has them."""
    return ", ".join(f"{'IP' if _is_address(host) else 'DNS'}:{host}" for host in dict.fromkeys(hosts))


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


def make_certificates(directory: str, token: str, hosts: Iterable[str]) -> TlsFiles:
    """Write the CA's certificate, and this node's for `hosts` with its key. Raises NoCertificates."""
    key = _make_authority(directory, token, CONFIG.format(names=alternative_names(hosts)))
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "node.key")
    _openssl(directory, *REQUEST, "/CN=flota node", *new_key, "-out", "node.csr")
    _openssl(directory, *SIGN, "-cert", "ca.pem", "-extensions", "node", "-in", "node.csr", "-out", "node.pem", key=key)
    return TlsFiles(*(f"{directory}/{name}" for name in ("ca.pem", "node.pem", "node.key")))


def authority_certificate(token: str) -> str:
    """The CA's certificate, in PEM, for a client that has only the token. Raises NoCertificates."""
    with TemporaryDirectory(prefix="flota-") as directory:
        _make_authority(directory, token, CONFIG.format(names=alternative_names(["localhost"])))
        with open(f"{directory}/ca.pem") as file:
            return file.read()


def _make_authority(directory: str, token: str, config: str) -> bytes:
    """Write the CA's certificate. Returns its key, which is in no file: one that is killed would leave it there."""
    for name, text in (("index", ""), ("config", config)):
        with open(os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    key = authority_key(token)
    _openssl(directory, *REQUEST, "/CN=flota job", "-key", KEY, "-out", "ca.csr", key=key)
    _openssl(directory, *SIGN, "-selfsign", "-extensions", "authority", "-in", "ca.csr", "-out", "ca.pem", key=key)
    return key


def _openssl(directory: str, *words: str, key: bytes = b"") -> None:
    command = ["openssl", *words]
    try:
        done = subprocess.run(command, cwd=directory, input=key, capture_output=True, check=False, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCertificates(getattr(error, "strerror", None) or str(error)) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoCertificates(lines[-1] if lines else f"`openssl {words[0]}` failed")
