"""Access to a job on other machines, for a user who has its token: how nodes are asked, and how they are verified."""

from __future__ import annotations

import http.client
from collections.abc import Mapping

from flota.control.client import ANSWER_TIME, Access, JobClient, NodeClient
from flota.errors import NoCertificates
from flota.job.roster import split_endpoint

HTTPS = "https://"


def job_at(where: str, environ: Mapping[str, str]) -> JobClient:
    """The job whose node listens at an endpoint."""
    endpoint = where if "://" in where else f"{HTTPS if speaks_tls(where) else ''}{where}"
    token, authority = environ.get("FLOTA_TOKEN", ""), environ.get("FLOTA_TLS_CA", "")
    derived = derived_authority(token) if token and not authority and endpoint.startswith(HTTPS) else ""
    access = Access(token, authority, derived)
    return JobClient(NodeClient(endpoint, access), access)


def speaks_tls(where: str) -> bool:
    """Whether it refuses a request over HTTP. A node answers 401, because the request does not have the token."""
    host, port = split_endpoint(where)
    if not port.isdecimal():
        return False
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_TIME)
    try:
        connection.request("GET", "/v1/status")
        return connection.getresponse().status == http.client.BAD_REQUEST
    except (http.client.HTTPException, ConnectionResetError):
        return True
    except (OSError, ValueError):
        return False  # the next request reports it
    finally:
        connection.close()


def derived_authority(token: str) -> str:
    """The CA certificate that nodes with an etcd of their own have made from the token; empty if it cannot be made:
    nodes may have certificates of a CA that this machine knows."""
    from flota.etcd.job_certificates import authority_certificate

    try:
        return authority_certificate(token)
    except NoCertificates:
        return ""
