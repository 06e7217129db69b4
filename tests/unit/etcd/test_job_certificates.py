"""The CA key that every node derives from the token."""

from __future__ import annotations

import os
import subprocess
from base64 import b64decode

from flota.etcd import job_certificates
from flota.etcd.job_certificates import ORDER, alternative_names, authority_key, make_certificates


def number_in(pem: bytes) -> int:
    lines = pem.decode().splitlines()
    assert (lines[0], lines[-1]) == ("-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----")
    der = b64decode("".join(lines[1:-1]))
    assert len(der) == 51
    return int.from_bytes(der[7:39], "big")


def test_the_same_token_gives_the_same_key_on_every_node():
    assert authority_key("secret") == authority_key("secret")
    # Nodes of one job may run different versions of flota: the key must not change.
    assert f"{number_in(authority_key('secret')):x}"[:16] == "748eb43db6b8266b"


def test_another_token_gives_another_key_of_the_curve():
    numbers = {number_in(authority_key(token)) for token in ("secret", "Secret", "x")}

    assert len(numbers) == 3
    assert all(0 < number < ORDER for number in numbers)


def test_a_certificate_is_for_names_and_addresses():
    names = alternative_names(["gpu01", "10.0.0.1", "fd00::1", "gpu01"])

    assert names == "DNS:gpu01, IP:10.0.0.1, IP:fd00::1"


def test_the_key_of_the_ca_is_in_no_file_at_any_time(tmp_path, monkeypatch):
    """A node that is killed while it makes certificates does not leave the key behind."""
    key = authority_key("secret").splitlines()[1]
    seen = []

    def run(*words, **options):
        done = subprocess.run(*words, **options)
        seen.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
        return done

    monkeypatch.setattr(job_certificates, "subprocess", type("Watched", (), {**vars(subprocess), "run": run}))
    files = make_certificates(str(tmp_path), "secret", ["localhost"])

    assert len(seen) == 4 and {"ca.pem", "node.key", "node.pem"} <= seen[-1].keys()
    assert not [name for files in seen for name, data in files.items() if key in data]
    assert os.stat(files.key).st_mode & 0o077 == 0
    verified = ["openssl", "verify", "-CAfile", files.authority, files.certificate]
    assert subprocess.run(verified, check=True, capture_output=True).returncode == 0
