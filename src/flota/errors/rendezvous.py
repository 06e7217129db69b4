"""Errors about the nodes of a job, their addresses and their secrets."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


class NodeRankOutOfRange(FlotaError):
    def __init__(self, rank: int, nodes: int) -> None:
        hint = f"use --rank 0 to --rank {nodes - 1}, or leave it out" if nodes > 1 else "leave it out"
        super().__init__(f"--rank {rank} is out of range: the job has {nodes} node{'s' * (nodes > 1)}", hint)


class MasterWithoutPort(TemplateError[str, str]):
    message = "{0} has no port: `{1}`"
    hint = "add a free port, e.g. --master {1}:8090"


class MasterWithoutNodes(TemplateError[str]):
    message = "{0} is given without the number of nodes"
    hint = "add --nnodes 2, or --nnodes 1 to run on this machine alone"


class SecretInAddress(TemplateError[str]):
    message = "{0} contains a user name or password, which every user of this machine can see"
    hint = "use FLOTA_ETCD_USER and FLOTA_ETCD_PASSWORD (or FLOTA_ETCD_PASSWORD_FILE) instead"


class UnreadableFile(FlotaError):
    def __init__(self, source: str, path: str, why: str) -> None:
        hint = f"run `ls -l {path}` to check its permissions"
        if source == "FLOTA_TOKEN_FILE":
            hint = "copy the file here from the node that created it, or set the same FLOTA_TOKEN on all nodes"
        super().__init__(f"cannot read {source} `{path}`: {why}", hint)


class BadToken(TemplateError[str]):
    message = "the token in {0} is empty, or contains spaces or non-ASCII characters"
    hint = "create one with `openssl rand -hex 16`, and use it on all nodes"


class NotAmongNodes(FlotaError):
    def __init__(self, flag: str, hosts: tuple[str, ...], own: list[str]) -> None:
        hint = "add the address that other nodes use for this machine; run `ip -brief address` to list its addresses"
        super().__init__(f"this machine is not in {flag} `{','.join(hosts)}`; its addresses: `{','.join(own)}`", hint)


class SeveralAmongNodes(FlotaError):
    def __init__(self, flag: str, hosts: tuple[str, ...]) -> None:
        words = f"{flag} lists more than one address of this machine: `{','.join(hosts)}`"
        super().__init__(words, f"choose one with --host, e.g. --host {hosts[0]}")


class UnknownInterface(FlotaError):
    def __init__(self, flag: str, name: str, known: list[str]) -> None:
        words = f"{flag}: interface `{name}` does not exist, is down or has no address; available: `{','.join(known)}`"
        super().__init__(words, f"choose one of these, e.g. --network-interface {known[-1] if known else 'eth0'}")


class CannotServe(TemplateError[str, str]):
    message = "cannot listen for the job's nodes at {0}: {1}"
    hint = "choose another address with --master HOST:PORT"


class BadCertificate(TemplateError[str, str]):
    message = "cannot use `{0}` for TLS: {1}"
    hint = "run `openssl x509 -text -in FILE` to inspect it"


class MissingPackage(TemplateError[str]):
    message = "jobs on several machines need the package {0}"
    hint = "run `pip install h11 msgspec`"
