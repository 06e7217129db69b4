"""From flags and variables to a NodesSpec: every form of a master, every contradiction."""

from __future__ import annotations

import pytest

from flota.cli.build_spec import restart_policy
from flota.cli.nodes_spec import make_nodes, member_notes, node_notes
from flota.cli.parse import parse
from flota.cli.settings import gather
from flota.errors import FlotaError, MasterWithoutNodes
from flota.job.nodes import NodesSpec, Place, Secrets
from flota.job.spec import RestartPolicy


@pytest.fixture
def asked(tmp_path):
    """What a command line, and an environment, ask for."""

    def ask(words: str, **environ: str) -> tuple:
        return gather(parse([*words.split(), "train.py"]).given, environ, str(tmp_path)), environ

    return ask


@pytest.fixture
def nodes_spec(asked):
    def make(words: str, **environ: str) -> NodesSpec | None:
        return make_nodes(*asked(words, **environ))

    return make


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--nnodes 1",
        "--nnodes 1:1",
        "--nnodes 1 --master etcd://10.0.0.1:2379",
        "--standalone --master 10.0.0.1:8090",
        "--ips 127.0.0.1 --master 10.0.0.1:8090",
        "--ips 127.0.0.1",
        "--nnodes=1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0",
        "--standalone --nnodes=1",
        "--nnodes 1 --elastic_server 10.0.0.1:2379",
    ],
)
def test_one_machine_needs_no_nodes_spec(nodes_spec, words):
    assert nodes_spec(words) is None


@pytest.mark.parametrize(
    ("words", "environ", "source"),
    [
        ("--master 10.0.0.1:8090", {}, "--master"),
        ("--master 10.0.0.1:8090 --rank 0", {}, "--master"),
        ("--master etcd://10.0.0.1", {}, "--master"),
        ("--elastic_server 10.0.0.1:2379", {}, "--elastic_server"),
        ("", {"FLOTA_MASTER": "10.0.0.1:8090"}, "FLOTA_MASTER"),
        ("--master 10.0.0.1:8090", {"PET_STANDALONE": "0"}, "--master"),
    ],
)
def test_a_master_without_a_number_of_nodes_is_an_error(nodes_spec, words, environ, source):
    with pytest.raises(MasterWithoutNodes, match=f"{source} is given") as raised:
        nodes_spec(words, **environ)

    assert "--nnodes 2" in raised.value.hint


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        ("--master 10.0.0.1:8090", {"PADDLE_NNODES": "1"}),
        ("--master 10.0.0.1:8090", {"FLOTA_NNODES": "1"}),
        ("--master 10.0.0.1:8090", {"PET_STANDALONE": "1"}),
        # A variable of another launcher may be for another job.
        ("", {"PADDLE_MASTER": "10.0.0.1:8090"}),
        ("", {"PADDLE_ELASTIC_SERVER": "10.0.0.1:2379"}),
    ],
)
def test_a_variable_may_say_that_there_is_one_node(nodes_spec, words, environ):
    assert nodes_spec(words, **environ) is None


def test_every_default_of_a_nodes_spec_is_as_asked_for(nodes_spec):
    assert nodes_spec("--nnodes 2") == NodesSpec(
        least=2,
        most=2,
        etcd=False,
        places=(),
        tls=False,
        secrets=Secrets(),
        rank=-1,
        hosts=(),
        serves=None,
        sort_by_address=False,
        elastic_timeout=30.0,
        join_timeout=600.0,
    )


@pytest.mark.parametrize("words", ["--nnodes 1:4", "--nnodes 2:4", "--np 2:4"])
def test_a_range_of_nodes_is_elastic(nodes_spec, words):
    assert nodes_spec(words).elastic
    assert nodes_spec(words).most == 4


@pytest.mark.parametrize(
    ("master", "etcd", "tls", "places"),
    [
        ("10.0.0.1:8090", False, False, [("10.0.0.1", 8090)]),
        ("http://10.0.0.1:8090", False, False, [("10.0.0.1", 8090)]),
        ("http://10.0.0.1:8090/", False, False, [("10.0.0.1", 8090)]),
        ("HTTPS://node0.example:8090", False, True, [("node0.example", 8090)]),
        ("[::1]:8090", False, False, [("::1", 8090)]),
        ("https://[fd00::1]:443", False, True, [("fd00::1", 443)]),
        ("etcd://10.0.0.1:2379", True, False, [("10.0.0.1", 2379)]),
        ("etcd://a:2379,b:2380,c", True, False, [("a", 2379), ("b", 2380), ("c", 2379)]),
        ("etcd://[fd00::1],[fd00::2]:1", True, False, [("fd00::1", 2379), ("fd00::2", 1)]),
        ("etcds://a", True, True, [("a", 2379)]),
    ],
)
def test_every_form_of_a_master(nodes_spec, master, etcd, tls, places):
    made = nodes_spec(f"--nnodes 2 --master {master}")

    assert (made.etcd, made.tls, made.places) == (etcd, tls, tuple(Place(*place) for place in places))
    assert made.serves is None


@pytest.mark.parametrize(
    ("words", "etcd", "places", "serves"),
    [
        ("--rdzv-backend c10d --rdzv-endpoint node0:1234", False, [("node0", 1234)], None),
        ("--rdzv-backend c10d --rdzv-endpoint node0", False, [("node0", 29400)], None),
        ("--rdzv-backend c10d --rdzv-endpoint node0 --master-port 1", False, [("node0", 29400)], None),
        ("--rdzv-backend c10d --rdzv-endpoint [fd00::1]", False, [("fd00::1", 29400)], None),
        ("--rdzv-backend c10d", False, [("localhost", 29400)], None),
        ("--rdzv-backend c10d --master-addr node0", False, [("node0", 29400)], None),
        ("--rdzv-backend c10d --rdzv-endpoint a:1 --master-addr b --master-port 2", False, [("a", 1)], None),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:0", False, [], True),
        ("--rdzv-backend c10d --rdzv-conf is_host=1 --rdzv-endpoint a:1", False, [("a", 1)], True),
        ("--rdzv-backend c10d --rdzv-conf is_host=no --rdzv-endpoint a:1", False, [("a", 1)], False),
        ("--rdzv-backend static", False, [("127.0.0.1", 29500)], None),
        ("--rdzv-endpoint node0:1234", False, [("node0", 1234)], None),
        ("--rdzv-endpoint node0:1234 --node-rank 1", False, [("node0", 1234)], False),
        ("--master-addr node0", False, [("node0", 29500)], None),
        ("--master-addr fd00::1 --master-port 1", False, [("fd00::1", 1)], None),
        ("--master-port 1234", False, [("127.0.0.1", 1234)], None),
        ("--master-addr node0 --node-rank 0", False, [("node0", 29500)], True),
        ("--master-addr node0 --master-port 1 --rank 1", False, [("node0", 1)], False),
        ("--node-rank 0", False, [("127.0.0.1", 29500)], True),
        ("--node_rank=1", False, [("127.0.0.1", 29500)], False),
        ("--rank 1", False, [], None),
        ("--rdzv-id 7", False, [], None),
        ("--rdzv-backend etcd --rdzv-endpoint a:1", True, [("a", 1)], None),
        ("--rdzv-backend etcd-v2 --rdzv-endpoint a,b", True, [("a", 2379), ("b", 2379)], None),
        ("--rdzv-backend etcd-v2 --rdzv-endpoint http://a:2379", True, [("a", 2379)], None),
        ("--rdzv-backend etcd", True, [("localhost", 2379)], None),
        ("--elastic_server 10.0.0.1:2379", True, [("10.0.0.1", 2379)], None),
        ("--elastic-server 10.0.0.1", True, [("10.0.0.1", 2379)], None),
    ],
)
def test_torchs_and_the_old_forms_of_a_master(nodes_spec, words, etcd, places, serves):
    made = nodes_spec(f"--nnodes 2 {words}")

    assert (made.etcd, made.places) == (etcd, tuple(Place(*place) for place in places))
    assert made.serves is serves


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("--nnodes 2", NodesSpec(2, 2)),
        ("--master 10.0.0.1:38714 --nnodes 2", NodesSpec(2, 2, places=(Place("10.0.0.1", 38714),))),
        ("--master etcd://10.0.0.1:2379 --nnodes 2", NodesSpec(2, 2, etcd=True, places=(Place("10.0.0.1", 2379),))),
        ("--devices=0,1 --master=192.168.0.16:8090 --nnodes=2", NodesSpec(2, 2, places=(Place("192.168.0.16", 8090),))),
        ("--master etcd://10.0.0.1:2379 --nnodes 2:4", NodesSpec(2, 4, etcd=True, places=(Place("10.0.0.1", 2379),))),
        (
            "--elastic_server=127.0.0.1:2379 --job_id=job1 --np=2",
            NodesSpec(2, 2, etcd=True, places=(Place("127.0.0.1", 2379),)),
        ),
        (
            "--nproc-per-node=8 --nnodes=2 --node-rank=0 --master-addr=192.168.1.1 --master-port=1234",
            NodesSpec(2, 2, places=(Place("192.168.1.1", 1234),), rank=0, serves=True),
        ),
        (
            "--nproc-per-node=8 --nnodes=2 --node-rank=1 --master-addr=192.168.1.1 --master-port=1234",
            NodesSpec(2, 2, places=(Place("192.168.1.1", 1234),), rank=1, serves=False),
        ),
    ],
)
def test_the_examples_of_the_old_documents(nodes_spec, words, made):
    assert nodes_spec(words) == made


@pytest.mark.parametrize(
    ("words", "environ", "etcd", "places"),
    [
        ("", {"PADDLE_MASTER": "a:1"}, False, [("a", 1)]),
        ("", {"PADDLE_ELASTIC_SERVER": "a:1"}, True, [("a", 1)]),
        ("", {"PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "1", "PET_NODE_RANK": "1"}, False, [("a", 1)]),
        ("", {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "a"}, False, [("a", 29400)]),
        ("--master a:1", {"PET_MASTER_ADDR": "b"}, False, [("a", 1)]),
        ("--master a:1 --rdzv-endpoint=", {}, False, [("a", 1)]),
        ("--master-addr a", {"PADDLE_MASTER": "b:1"}, False, [("a", 29500)]),
        ("", {"FLOTA_MASTER": "a:1", "PADDLE_IPS": "127.0.0.1,10.0.0.2"}, False, [("a", 1)]),
        ("--ips 127.0.0.1,10.0.0.2", {"PADDLE_MASTER": "b:1"}, False, [("127.0.0.1", 6069)]),
    ],
)
def test_the_source_with_precedence_names_the_master(nodes_spec, words, environ, etcd, places):
    made = nodes_spec(f"--nnodes 2 {words}", **environ)

    assert (made.etcd, made.places) == (etcd, tuple(Place(*place) for place in places))


@pytest.mark.parametrize(
    "words",
    [
        "--master 10.0.0.1:1234 --rdzv-backend c10d --rdzv-endpoint 10.0.0.1:1234",
        "--master 10.0.0.1:1234 --master-addr 10.0.0.1 --master-port 1234",
        "--master 10.0.0.1:1234 --master-addr 10.0.0.1",
        "--master etcd://10.0.0.1 --rdzv-backend etcd-v2 --rdzv-endpoint 10.0.0.1:2379",
    ],
)
def test_a_master_may_be_given_twice(nodes_spec, words):
    assert nodes_spec(f"--nnodes 2 {words}").places[0].host == "10.0.0.1"


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("--rdzv-conf join_timeout=5", "join_timeout", 5.0),
        ("--rdzv-conf join_timeout=5 --join-timeout 7s", "join_timeout", 7.0),
        ("--join-timeout 2m", "join_timeout", 120.0),
        ("--rdzv-conf last_call_timeout=5,join_timeout=9", "elastic_timeout", 5.0),
        ("--elastic_timeout 7", "elastic_timeout", 7.0),
        ("--sort_ip true", "sort_by_address", True),
        ("--rank 1", "rank", 1),
        ("--rank -1", "rank", -1),
    ],
)
def test_the_rest_of_a_nodes_spec(nodes_spec, words, field, value):
    assert getattr(nodes_spec(f"--nnodes 2 {words}"), field) == value


def test_what_flota_does_not_use_of_torchs_settings_is_named(asked):
    asking = asked("--nnodes 2 --rdzv-conf timeout=5,join_timeout=3,read_timeout=1")

    assert node_notes(*asking) == ("--rdzv-conf: timeout, read_timeout have no effect",)
    assert node_notes(*asked("--nnodes 2 --rdzv_conf close_timeout=5")) == ("--rdzv_conf: close_timeout has no effect",)


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        ("--ips 127.0.0.1,203.0.113.7", 0),
        ("--ips 203.0.113.7,127.0.0.1,203.0.113.8", 1),
        ("--ips 127.0.0.1,127.0.0.2 --host 127.0.0.2", 1),
        ("--ips 127.0.0.1,127.0.0.2 --rank 1", 1),
        ("--ips 203.0.113.7,127.0.0.1 --rank 1 --nnodes 2", 1),
    ],
)
def test_a_list_of_addresses_gives_nodes_and_master(nodes_spec, words, rank):
    made = nodes_spec(words)

    assert (made.rank, made.serves) == (rank, rank == 0)
    assert made.places == (Place(made.hosts[0], 6069),)
    assert made.least == made.most == len(made.hosts)


def test_a_list_of_addresses_uses_the_port_below_the_start_port(nodes_spec):
    assert nodes_spec("--ips 127.0.0.1,203.0.113.7 --start_port 7000").places == (Place("127.0.0.1", 6999),)


def test_a_pod_knows_which_of_the_addresses_is_its_own(nodes_spec):
    assert nodes_spec("--ips 127.0.0.1,127.0.0.2", POD_IP="127.0.0.2").rank == 1


def test_a_list_of_addresses_can_use_a_master(nodes_spec):
    made = nodes_spec("--ips 127.0.0.1,203.0.113.7 --master etcd://10.0.0.1")

    assert (made.etcd, made.places, made.rank) == (True, (Place("10.0.0.1", 2379),), 0)


WRONG = [
    ("--master 10.0.0.1", "--master has no port: `10.0.0.1`", "--master 10.0.0.1:8090"),
    ("--master 10.0.0.1:", "`10.0.0.1:`", "--master 10.0.0.1:8090"),
    (
        "--master 10.0.0.1:0",
        "invalid value `10.0.0.1:0` for --master: expected a port from 1 to 65535 after the host",
        "--master",
    ),
    ("--master 10.0.0.1:99999", "a port from 1 to 65535", "--master"),
    ("--master :8090", "invalid value `:8090` for --master: expected HOST:PORT", "--master"),
    (
        "--master fd00::1:8090",
        "invalid value `fd00::1:8090` for --master: expected an IPv6 address in brackets",
        "[fd00::1]:8090",
    ),
    ("--master [fd00::1", "for --master: expected HOST:PORT", "[fd00::1]:8090"),
    ("--master [host]:1", "for --master: expected HOST:PORT", "[fd00::1]:8090"),
    (
        "--master zk://a:1",
        "invalid value `zk://a:1` for --master: expected one of http://, https://, etcd://, etcds://",
        "--master",
    ),
    ("--master a:1,b:1", "--master lists two hosts: `a:1,b:1`; an etcd of two members is lost", "--master a:1; or use"),
    ("--master a:1,b:1,c:1", "--master wants etcd on 3 nodes, but the job has only 2", "three of four"),
    ("--master a:1 --masters 3", "--masters wants etcd on 3 nodes, but the job has only 2", "three of four"),
    (
        "--master a:65534 --masters 3 --nnodes 3",
        "invalid value `65534` for --master: expected a port with two more",
        "8090",
    ),
    ("--master a:65535,b:1,c:1", "expected ports below 65535, because each member uses the next one", "--master"),
    ("--master a:1 --masters 2", "--masters 2: an etcd needs three members or more", "--masters 3"),
    ("--masters 3", "--masters needs one address at which the nodes join, but --master is missing", "gpu01:8090"),
    ("--masters 3 --master etcd://a", "one address at which the nodes join, but --master is etcd://a", "gpu01:8090"),
    ("--master a:1,b:1,a:1", "--master `a:1,b:1,a:1` uses a:1 twice", "gpu01:8090,gpu02:8090"),
    ("--master a:1,a:2,b:1", "uses a:2 twice: each member has its port and the next one", "gpu01:8090,gpu02:8090"),
    ("--master a:1,b,c:1", "--master has no port: `b`", "--master b:8090"),
    ("--master https://a:1,b:1,c:1 --nnodes 3", "etcd members with TLS need the certificate", "FLOTA_TOKEN"),
    ("--master a/b:1", "invalid value `a/b:1` for --master: expected HOST:PORT", "--master"),
    ("--master etcd://a,,b", "invalid value `` for --master: expected HOST:PORT", "--master"),
    ("--rdzv-endpoint a:x", "for --rdzv-endpoint: expected a port", "--rdzv-endpoint 10.0.0.1"),
    ("--master-addr 10.0.0.1:5", "for --master-addr: expected an address without a port", "--master-port 29500"),
    ("--rank 2", "--rank 2 is out of range: the job has 2 nodes", "--rank 0 to --rank 1"),
    ("--rank -2", "--rank -2 is out of range: the job has 2 nodes", "--rank 0 to --rank 1"),
    ("--master a:1 --rdzv-endpoint b:1", "--master a:1 and --rdzv-endpoint b:1 contradict", "not both"),
    ("--master a:1 --master-addr b", "--master a:1 and --master-addr b contradict", "not both"),
    ("--master a:1 --master-port 2", "--master a:1 and --master-port 2 contradict", "not both"),
    ("--master a:1 --rdzv-backend etcd", "--master a:1 and --rdzv-backend etcd contradict", "not both"),
    ("--master etcd://a --rdzv-backend c10d", "and --rdzv-backend c10d contradict", "not both"),
    (
        "--standalone",
        "--standalone and --nnodes contradict each other: a standalone job runs on one machine",
        "not both",
    ),
    ("--master a:\u0663", "expected a port from 1 to 65535 after the host", "--master 10.0.0.1:8090"),
    ("--master a\x1b:1", "expected HOST:PORT", "--master 10.0.0.1:8090"),
    ("--rdzv-conf x", "invalid value `x` for --rdzv-conf: expected KEY=VALUE pairs", "join_timeout=600"),
    (
        "--rdzv-conf join_timeout=soon",
        "invalid value `join_timeout=soon` for --rdzv-conf: expected a valid join_timeout",
        "join_timeout=600",
    ),
    (
        "--rdzv-conf is_host=maybe",
        "invalid value `is_host=maybe` for --rdzv-conf: expected a valid is_host",
        "is_host=true",
    ),
    ("--ips 127.0.0.1", "--nnodes 2 and --ips 127.0.0.1 contradict each other: 1 address", "not both"),
    ("--ips 127.0.0.1,a,b", "contradict each other: 3 addresses", "not both"),
    (
        "--ips 127.0.0.1,",
        "invalid value `127.0.0.1,` for --ips: expected addresses without ports",
        "--ips 10.0.0.1,10.0.0.2",
    ),
    ("--ips 127.0.0.1:1,127.0.0.2:1", "addresses without ports", "--ips 10.0.0.1,10.0.0.2"),
    ("--ips 203.0.113.7,203.0.113.8", "this machine is not in --ips `203.0.113.7,203.0.113.8`", "ip -brief address"),
    (
        "--ips 127.0.0.1,127.0.0.2 --host 127.0.0.3",
        "127.0.0.1,127.0.0.2`; its addresses: `127.0.0.3`",
        "ip -brief address",
    ),
    ("--ips 127.0.0.1,127.0.0.2", "--ips lists more than one address of this machine", "--host 127.0.0.1"),
    ("--ips 127.0.0.1,203.0.113.7 --rank 1", "this machine is rank 0 in the list", "not both"),
    (
        "--ips 127.0.0.1,203.0.113.7 --start_port 1",
        "invalid value `1` for --start_port: expected a port above 1 with --ips",
        "--start_port 6070",
    ),
    ("--tls-cert nowhere.pem", "cannot read --tls-cert `nowhere.pem`: No such file", "ls -l nowhere.pem"),
    ("--tls-ca /", "cannot read --tls-ca `/`: Is a directory", "ls -l /"),
    ("--tls-cert /dev/null", "--tls-cert has an effect only with --tls-key", "add --tls-key"),
    ("--tls-key /dev/null", "--tls-key has an effect only with --tls-cert", "add --tls-cert"),
]


@pytest.mark.parametrize(("words", "message", "hint"), WRONG, ids=[words for words, _, _ in WRONG])
def test_every_error_is_one_line_with_a_hint(nodes_spec, words, message, hint):
    with pytest.raises(FlotaError) as raised:
        nodes_spec(f"--nnodes 2 {words}")

    assert message in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.exit_code == 2
    assert "\n" not in raised.value.message + raised.value.hint


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    "words",
    [
        "--master etcd://root:hunter2@10.0.0.1",
        "--master root:hunter2@10.0.0.1:1",
        "--master etcd://a?password=hunter2",
        "--elastic_server root:hunter2@a",
        "--rdzv-backend etcd --rdzv-endpoint root:hunter2@a",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(nodes_spec, words, nodes):
    with pytest.raises(FlotaError) as raised:
        nodes_spec(f"--nnodes {nodes} {words}")

    assert "hunter2" not in raised.value.message + raised.value.hint
    assert "FLOTA_ETCD_USER and FLOTA_ETCD_PASSWORD" in raised.value.hint
    assert "FLOTA_ETCD_PASSWORD_FILE" in raised.value.hint


@pytest.mark.parametrize(
    ("words", "tls"),
    [
        ("--master a:1 --tls-ca /dev/null", True),
        ("--master a:1 --tls-cert /dev/null --tls-key /dev/null", True),
        ("--tls-cert /dev/null --tls-key /dev/null", True),
        ("--master https://a:1", True),
        ("--master a:1", False),
    ],
)
def test_files_of_tls_turn_it_on(nodes_spec, words, tls):
    assert nodes_spec(f"--nnodes 2 {words}").tls is tls


def test_secrets_come_from_variables_and_files(nodes_spec, tmp_path):
    token, password = tmp_path / "token", tmp_path / "password"
    token.write_text("abc\n")
    password.write_text(" a b \n")

    by_variable = nodes_spec("--nnodes 2", FLOTA_TOKEN="abc")
    by_file = nodes_spec(
        "--nnodes 2 --master etcd://a",
        FLOTA_TOKEN_FILE=str(token),
        FLOTA_ETCD_USER="root",
        FLOTA_ETCD_PASSWORD_FILE=str(password),
    )

    assert by_variable.secrets == Secrets(token="abc")
    assert by_file.secrets == Secrets(token="abc", user="root", password="a b")
    assert "abc" not in repr(by_file)


def test_etcds_user_is_nothing_to_the_embedded_master(nodes_spec):
    assert nodes_spec("--nnodes 2", FLOTA_ETCD_USER="root", FLOTA_ETCD_PASSWORD="x").secrets == Secrets()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"FLOTA_TOKEN": "abc", "FLOTA_TOKEN_FILE": "x"}, "FLOTA_TOKEN and FLOTA_TOKEN_FILE contradict each other"),
        ({"FLOTA_TOKEN_FILE": "/nowhere"}, "cannot read FLOTA_TOKEN_FILE `/nowhere`: No such file"),
        ({"FLOTA_TOKEN_FILE": "/dev/null"}, "the token in FLOTA_TOKEN_FILE is empty"),
        ({"FLOTA_TOKEN": "a c"}, "the token in FLOTA_TOKEN is empty, or contains spaces"),
        ({"FLOTA_ETCD_USER": "root"}, "FLOTA_ETCD_USER has an effect only with FLOTA_ETCD_PASSWORD"),
        ({"FLOTA_ETCD_PASSWORD": "abc"}, "FLOTA_ETCD_PASSWORD has an effect only with FLOTA_ETCD_USER"),
        ({"FLOTA_ETCD_PASSWORD_FILE": "/nowhere"}, "cannot read FLOTA_ETCD_PASSWORD_FILE"),
    ],
)
def test_secrets_that_cannot_be_used_are_named_but_not_shown(nodes_spec, environ, message):
    with pytest.raises(FlotaError) as raised:
        nodes_spec("--nnodes 2 --master etcd://a", **environ)

    assert message in raised.value.message
    assert "abc" not in raised.value.message + raised.value.hint


def test_a_token_that_everyone_can_read_causes_a_warning(asked, tmp_path):
    token = tmp_path / "token"
    token.write_text("abc")

    token.chmod(0o644)
    assert node_notes(*asked("--nnodes 2", FLOTA_TOKEN_FILE=str(token))) == (
        f"FLOTA_TOKEN_FILE can be read by everyone on this machine: run `chmod 600 {token}`",
    )
    token.chmod(0o600)
    assert node_notes(*asked("--nnodes 2", FLOTA_TOKEN_FILE=str(token))) == ()


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        ("", RestartPolicy(3, enabled=False, elastic_level=-1)),
        ("--nnodes 2", RestartPolicy(3, enabled=False, elastic_level=-1)),
        ("--nnodes 2:4", RestartPolicy(3, enabled=True, elastic_level=1)),
        ("--nnodes 2:4 --elastic_level 0", RestartPolicy(3, enabled=True, elastic_level=0)),
        ("--nnodes 1:2 --max_restart 0", RestartPolicy(0, enabled=True, elastic_level=1)),
        ("--nnodes 2 --elastic_level 1", RestartPolicy(3, enabled=True, elastic_level=1)),
        ("--max_restart 5", RestartPolicy(5, enabled=True, elastic_level=-1)),
    ],
)
def test_a_changing_number_of_nodes_turns_restarting_on(asked, words, policy):
    assert restart_policy(asked(words)[0]) == policy


def test_spares_and_eviction(nodes_spec):
    spec = nodes_spec("--nnodes 2:4 --spares 1 --evict-stragglers 1.5x --master 10.0.0.1:8090")

    assert (spec.least, spec.most, spec.spares, spec.evict) == (2, 4, 1, 1.5)
    assert nodes_spec("--nnodes 2", FLOTA_SPARES="2", FLOTA_EVICT_STRAGGLERS="2").evict == 2.0
    assert nodes_spec("--nnodes 1 --spares 1").spares == 1


def test_a_rank_beyond_the_nodes_is_that_of_a_spare(nodes_spec):
    assert [nodes_spec(f"--nnodes 2 --spares 1 --rank {rank}").rank for rank in (0, 1, 2)] == [0, 1, -1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--nnodes 2 --spares -1", "--spares"),
        ("--nnodes 2 --spares many", "`many`"),
        ("--nnodes 2 --spares 1 --evict-stragglers 1x", "`1x`"),
        ("--nnodes 2 --spares 1 --evict-stragglers fast", "`fast`"),
        ("--nnodes 2 --spares 1 --evict-stragglers infx", "`infx`"),
        ("--nnodes 2 --evict-stragglers 1.5x", "--evict-stragglers has an effect only with --spares"),
        ("--nnodes 2 --spares 0 --evict-stragglers 1.5x", "--evict-stragglers has an effect only with --spares"),
        ("--spares 1", "--spares has an effect only with --nnodes"),
        ("--ips 10.0.0.1,10.0.0.2 --spares 1", "--ips"),
        ("--nnodes 2 --spares 1 --rank 3", "--rank 3 is out of range: the job has 3 nodes"),
        ("--nnodes 2 --spares 1 --standalone", "--standalone"),
    ],
)
def test_spares_that_cannot_be(nodes_spec, words, message):
    with pytest.raises(FlotaError) as raised:
        nodes_spec(words)
    assert message in raised.value.message
    assert raised.value.hint
    assert raised.value.exit_code == 2


def test_several_hosts_run_an_etcd_of_their_own(nodes_spec):
    made = nodes_spec("--nnodes 3:4 --master a:1,[fd00::2]:2,c:3", FLOTA_TOKEN="secret", FLOTA_ETCD_USER="root")

    assert (made.members, made.etcd, made.tls) == (True, True, False)
    assert made.places == (Place("a", 1), Place("fd00::2", 2), Place("c", 3))
    assert made.secrets == Secrets("secret")  # the users of another etcd are not known to this one


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("--nnodes 1:3 --master a:1,b:1,c:1", ("fewer than 2 of the 3 nodes that run it are left",)),
        ("--nnodes 2:5 --master a:1,b:1,c:1,d:1,e:1", ("fewer than 3 of the 5 nodes that run it are left",)),
        ("--nnodes 2:3 --master a:1,b:1,c:1", ()),
        ("--nnodes 1:3 --master etcd://a,b,c", ()),
        ("--nnodes 1:3 --master a:1", ()),
    ],
)
def test_a_job_of_fewer_nodes_than_its_etcd_needs_is_noted(nodes_spec, words, note):
    notes = member_notes(nodes_spec(words))

    assert len(notes) == len(note) and all(wanted in text for wanted, text in zip(note, notes, strict=True))
