"""The command line of a member, and what it inherits."""

from __future__ import annotations

from flota.etcd.member_flags import TlsFiles, cluster_token, command_line, initial_cluster, member_environment
from flota.job.nodes import Place

PLACES = (Place("gpu01", 8090), Place("gpu02", 8090), Place("fd00::3", 8090))


def flags_of(**options):
    cluster = initial_cluster(PLACES, tls=options["tls"] is not None)
    argv = command_line("/bin/etcd", PLACES[1], "10.0.0.2", "/data", cluster, "t", **options)
    return dict(zip(argv[1::2], argv[2::2], strict=False)), argv


def test_a_member_listens_at_its_port_and_the_next_one():
    flags, argv = flags_of(tls=None, joins=False)

    assert argv[0] == "/bin/etcd"
    assert flags["--name"] == "gpu02:8090"
    assert flags["--listen-client-urls"] == "http://10.0.0.2:8090"
    assert flags["--listen-peer-urls"] == "http://10.0.0.2:8091"
    assert flags["--advertise-client-urls"] == "http://gpu02:8090"
    assert flags["--initial-advertise-peer-urls"] == "http://gpu02:8091"
    assert flags["--initial-cluster"] == (
        "gpu01:8090=http://gpu01:8091,gpu02:8090=http://gpu02:8091,[fd00::3]:8090=http://[fd00::3]:8091"
    )
    assert (flags["--initial-cluster-state"], flags["--data-dir"]) == ("new", "/data")
    assert "--client-cert-auth" not in argv


def test_with_tls_members_and_clients_must_have_a_certificate():
    flags, argv = flags_of(tls=TlsFiles("ca", "cert", "key"), joins=True)

    assert flags["--listen-peer-urls"] == "https://10.0.0.2:8091"
    assert flags["--initial-cluster-state"] == "existing"
    assert {"--client-cert-auth", "--peer-client-cert-auth"} < set(argv)
    values = {flag: argv[argv.index(flag) + 1] for flag in argv if flag.endswith("-file")}
    assert values == {
        "--trusted-ca-file": "ca",
        "--cert-file": "cert",
        "--key-file": "key",
        "--peer-trusted-ca-file": "ca",
        "--peer-cert-file": "cert",
        "--peer-key-file": "key",
    }


def test_the_token_of_the_cluster_depends_on_the_spelling_of_the_list_and_on_the_job():
    others = [(PLACES[::-1], "a"), (PLACES, "b"), ((Place("10.0.0.1", 8090), *PLACES[1:]), "a")]

    tokens = {cluster_token(places, job) for places, job in [(PLACES, "a"), *others]}

    assert len(tokens) == 4
    assert cluster_token(PLACES, "a") == cluster_token(tuple(PLACES), "a")


def test_etcd_inherits_neither_secrets_nor_flags_of_its_own_nor_proxies():
    given = {"PATH": "/bin", "FLOTA_TOKEN": "x", "ETCD_NAME": "y", "https_proxy": "z", "HTTP_PROXY": "z"}

    assert member_environment(given) == {"PATH": "/bin", "GOMAXPROCS": "1"}
