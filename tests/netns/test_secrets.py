"""A job's token is nowhere that others look, and TLS keeps it from those who listen."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.etcd import packaged_etcd
from tests.launching import DEADLINE, environment, wait_until
from tests.netns.jobs import HTTP, MEETS, Job, ask_store, last_words

TOKEN = "secret-0123456789abcdef"


def command_lines(shared) -> str:
    """What `ps` shows on all hosts."""
    pids = [pid for host in shared.lab.hosts for pid in host.processes()]
    return "\n".join(filter(None, (read(f"/proc/{pid}/cmdline") for pid in pids)))


def read(path: str | Path) -> str:
    try:
        return Path(path).read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""  # it has just ended


def worker_environments(job: Job) -> list[str]:
    return [read(f"/proc/{note['pid']}/environ") for note in job.notes("worker", 0).values()]


def written(job: Job) -> str:
    """All that the job has written: screens, logs, events, reports."""
    return "\n".join(read(path) for path in job.stage.rglob("*") if path.is_file())


def assert_secret(shared, job: Job, secret: str) -> None:
    environments = worker_environments(job)
    assert "stands_in.py" in command_lines(shared)
    assert len(environments) == 2 and all("FLOTA_RANK=" in text for text in environments)
    assert secret not in command_lines(shared)
    assert not any(secret in text for text in environments)


@pytest.mark.parametrize("way", ["FLOTA_TOKEN", "FLOTA_TOKEN_FILE"])
def test_a_given_token_is_not_visible_anywhere(shared, tmp_path, way):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    for host in (1, 2):
        job.node(host, "--nnodes 2 --log_level debug", env={way: TOKEN if way == "FLOTA_TOKEN" else str(file)})
    job.round(0, 2)

    assert_secret(shared, job, TOKEN)
    job.fail(1)  # its last screen is the longest
    assert job.codes() == [7, 7]
    assert TOKEN not in written(job)


def test_a_token_that_flota_made_is_in_one_file_of_its_owner_until_the_end(shared, tmp_path):
    job = Job(shared.lab, tmp_path)
    one = job.node(1, "--nnodes 2")
    one.wait_for("FLOTA_TOKEN_FILE=")
    words = next(line for line in one.out.splitlines() if "FLOTA_TOKEN_FILE=" in line).split()
    file = Path(words[0].partition("=")[2])
    secret = file.read_text().strip()
    assert (len(secret) >= 32, stat.S_IMODE(file.stat().st_mode)) == (True, 0o600)
    master = words[words.index("--master") + 1]
    job.node(2, f"--nnodes 2 --master {master}", env={"FLOTA_TOKEN_FILE": str(file)})
    job.round(0, 2)

    assert_secret(shared, job, secret)
    job.finish()
    assert job.codes() == [0, 0]
    assert not file.exists()
    assert secret not in written(job)


# TLS.


@pytest.fixture(scope="session")
def papers(tmp_path_factory):
    """An authority, a certificate of it for hosts 1 and 8, and an authority that has nothing to do with them."""
    directory = tmp_path_factory.mktemp("papers")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=30)

    (directory / "names").write_text("subjectAltName=IP:10.77.0.1,IP:fd77::1,DNS:host1,IP:10.77.0.8\n")
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for name in ("ca", "other"):
        openssl(*new, "-x509", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl(*new, "-subj", "/CN=host1", "-keyout", "host.key", "-out", "host.csr")
    sign = "x509 -req -days 2 -in host.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out host.pem"
    openssl(*sign.split())
    return directory


def serving(papers: Path) -> str:
    return f"--nnodes 2 --tls-cert {papers}/host.pem --tls-key {papers}/host.key --tls-ca {papers}/ca.pem"


@pytest.mark.parametrize("master", ["10.77.0.1:8090", "https://[fd77::1]:8090", "https://host1:8090"])
def test_nodes_join_over_tls(shared, tmp_path, papers, master):
    job = Job(shared.lab, tmp_path, master)
    job.node(2, f"--nnodes 2 --tls-ca {papers}/ca.pem", MEETS, env={"FLOTA_TOKEN": TOKEN})
    job.node(1, serving(papers), MEETS, env={"FLOTA_TOKEN": TOKEN})

    assert job.codes() == [0, 0]
    two, one = job.nodes.started
    assert one.log(0) == two.log(1) == "0 host1 0 0 2\n1 host2 1 0 2\n"


def test_a_job_over_tls_fails_and_starts_again_like_any_other(shared, tmp_path, papers):
    job = Job(shared.lab, tmp_path, "https://10.77.0.1:8090")
    nodes = [job.node(1, f"{serving(papers)} --max_restart 1")]
    nodes.append(job.node(2, f"--nnodes 2 --tls-ca {papers}/ca.pem --max_restart 1"))
    job.round(0, 2)
    job.fail(1)
    job.round(1, 2)

    nodes[1].process.kill()

    nodes[0].wait_for("host2 was lost; starting a new round")
    job.node(2, f"--nnodes 2 --tls-ca {papers}/ca.pem --max_restart 1")
    job.round(2, 2)
    job.finish()
    assert job.codes() == [0, -9, 0]


def test_a_node_that_does_not_trust_the_master_says_so_and_another_may_come(shared, tmp_path, papers):
    job = Job(shared.lab, tmp_path, "https://10.77.0.1:8090")
    one = job.node(1, serving(papers))
    wrong = [job.node(2, f"--nnodes 2 --tls-ca {papers}/other.pem"), job.node(3, "--nnodes 2")]

    for node in wrong:
        assert node.wait() == 2
        assert "certificate of 10.77.0.1:8090" in last_words(node)
        assert "unable to get local issuer certificate" in last_words(node)
    job.node(4, f"--nnodes 2 --tls-ca {papers}/ca.pem")
    job.round(0, 2)
    job.finish()
    assert job.codes() == [0, 2, 2, 0]
    assert "Traceback" not in one.err


def test_a_node_without_tls_gets_an_error_if_the_master_uses_it(shared, tmp_path, papers):
    job = Job(shared.lab, tmp_path, "10.77.0.1:8090")
    one = job.node(1, serving(papers))
    one.wait_for("1 of 2 joined (host1)")

    plain = job.node(2, "--nnodes 2")

    assert plain.wait() == 2
    assert "10.77.0.1:8090 does not answer like a store" in plain.err
    job.node(3, f"--nnodes 2 --tls-ca {papers}/ca.pem")
    job.round(0, 2)
    job.finish()
    assert job.codes() == [0, 2, 0]


def test_nodes_are_asked_over_tls(shared, tmp_path, papers):
    job = Job(shared.lab, tmp_path, "https://10.77.0.1:8090")
    for host in (1, 8):
        job.node(host, serving(papers), env={"FLOTA_TOKEN": TOKEN})
    job.round(0, 2)

    def flota(host, *words, **variables):
        command = [sys.executable, "-m", "flota", *words]
        return shared.lab.host(host).run(command, cwd=job.stage, env=environment(variables), timeout=DEADLINE)

    answer = json.loads(flota(1, "top", "--json").stdout)
    places = [place["endpoint"] for place in answer["job"]["nodes"]]
    assert ([node["host"] for node in answer["nodes"]], answer["missing"]) == (["host1", "host8"], [])
    assert all(place.startswith("https://") for place in places)
    trusted = {"FLOTA_TOKEN": TOKEN, "FLOTA_TLS_CA": f"{papers}/ca.pem"}
    assert json.loads(flota(3, "ps", "--json", "--at", places[1], **trusted).stdout)[0]["hosts"] == ["host1", "host8"]
    for where, variables, why in (
        (places[1], {**trusted, "FLOTA_TLS_CA": f"{papers}/other.pem"}, "certificate verify failed"),
        (places[1], {**trusted, "FLOTA_TLS_CA": f"{papers}/none.pem"}, "cannot read "),
        (places[1], {**trusted, "FLOTA_TOKEN": "wrong"}, "does not have the job's token"),
        (places[1].replace("https", "http"), trusted, "cannot ask http://10.77.0.8:"),
    ):
        refused = flota(3, "ps", "--at", where, **variables)
        assert (refused.returncode, why in refused.stderr.splitlines()[0]) == (2, True), refused.stderr
        assert "Traceback" not in refused.stderr
    assert flota(3, "stop", "--at", places[1], **trusted).stdout == "flota: stopping the job\n"
    assert job.codes() == [143, 143]


# etcd's own guards.

LONG_LEASE = 40.0  # seconds: for so many nodes leases are longer, and only a shepherd's word is early
MANY = f"--nnodes 2:{int(LONG_LEASE) * 64} --elastic_timeout 1"


def start_etcd(shared, directory: Path, url: str, *flags: object) -> None:
    """One more etcd, on host 8."""
    urls = [word for flag in ("listen", "advertise") for word in (f"--{flag}-client-urls", url)]
    with (directory / "etcd.log").open("w") as log:
        argv = [packaged_etcd(), "--data-dir", directory / "etcd", *urls, *flags]
        shared.lab.host(8).popen(argv, stdout=log, stderr=subprocess.STDOUT)
    wait_until(lambda: "ready to serve client requests" in read(directory / "etcd.log"), "etcd")


def assert_a_dead_node_is_missed_at_once(job: Job) -> None:
    """Its shepherd says so, through the same guards."""
    one, two = job.nodes.started
    job.round(0, 2)
    two.process.kill()

    one.wait_for("host2 was lost", LONG_LEASE / 2)
    one.process.send_signal(signal.SIGINT)
    assert job.codes() == [130, -9]


def test_nodes_join_with_an_etcd_over_tls(shared, tmp_path, papers):
    keys = ["--cert-file", papers / "host.pem", "--key-file", papers / "host.key"]
    start_etcd(shared, tmp_path, "https://10.77.0.8:2379", *keys)
    job = Job(shared.lab, tmp_path, "etcds://10.77.0.8:2379")
    job.start([1, 2], f"{MANY} --tls-ca {papers}/ca.pem")

    assert_a_dead_node_is_missed_at_once(job)


@pytest.fixture
def guarded(shared, tmp_path):
    """An etcd where `flota` may do everything with its password, and nobody else anything."""
    # Cheap hashes: by default one takes a core for 0.1 s, and a shepherd asks for 0.5 s.
    start_etcd(shared, tmp_path, "http://10.77.0.8:2379", "--bcrypt-cost", 4)

    def ask(path: str, **body: object) -> None:
        answer = ask_store(shared.lab, "10.77.0.8:2379", f"/v3/auth/{path}", body)
        assert "header" in answer, answer

    ask("user/add", name="root", password="root")
    ask("user/grant", user="root", role="root")
    ask("user/add", name="flota", password=TOKEN)
    ask("role/add", name="flota")
    ask("role/grant", name="flota", perm={"permType": "READWRITE", "key": "AA==", "range_end": "AA=="})
    ask("user/grant", user="flota", role="flota")
    ask("enable")
    return "etcd://10.77.0.8:2379"


def test_nodes_join_with_an_etcd_that_needs_a_password(shared, tmp_path, guarded):
    job = Job(shared.lab, tmp_path, guarded)
    for host in (1, 2):
        job.node(host, MANY, env={"FLOTA_ETCD_USER": "flota", "FLOTA_ETCD_PASSWORD": TOKEN})
    job.round(0, 2)

    assert_secret(shared, job, TOKEN)
    assert_a_dead_node_is_missed_at_once(job)
    assert TOKEN not in written(job)


@pytest.mark.parametrize(
    "env", [{"FLOTA_ETCD_USER": "flota", "FLOTA_ETCD_PASSWORD": "wrong"}, {}], ids=["wrong", "none"]
)
def test_an_etcd_that_does_not_know_the_password_is_named(shared, tmp_path, guarded, env):
    job = Job(shared.lab, tmp_path, guarded)
    node = job.node(1, "--nnodes 2", env=env)

    assert job.codes() == [2]
    assert "10.77.0.8:2379" in last_words(node)
    assert "FLOTA_ETCD_USER" in last_words(node)
