"""Every flag, one row each. Parsing, help, completion, the config file and docs/reference use these rows."""

from __future__ import annotations

from flota.frameworks import REGISTRY as FRAMEWORKS
from flota.values import NamedTuple

SWITCH = ("switch", "bool")


class Flag(NamedTuple):
    """One flag of flota. `name` is its dashed spelling; underscores mean the same."""

    name: str
    kind: str
    default: object
    group: str
    help: str
    metavar: str = ""
    variables: str = ""  # environment variables read after FLOTA_<NAME>, before the config file
    origin: str = "flota"  # the launchers that define it
    short: str = ""
    refused: str = ""  # why flota rejects it
    note: str = ""  # printed when the flag is given

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


class Alias(NamedTuple):
    """Another name for a flag."""

    name: str
    of: str
    origin: str
    deprecated: bool = False
    variables: str = ""


ON_ONE_MACHINE = "has no effect on one machine"
WITHOUT_SERVERS = "has no effect without parameter servers"
WITHOUT_HOSTS = "has no effect without --hosts"

GROUPS = {
    "script": "what to run",
    "workers": "number of workers, devices",
    "output": "logs and console",
    "restarts": "restarts, hangs, stopping",
    "nodes": "several machines",
    "ssh": "start nodes over ssh",
    "roles": "parameter servers, roles",
    "refused": "flags that flota refuses",
}

# fmt: off
FLAGS = (
    Flag("module", "switch", False, "script", "the script is a module name, as in python -m", variables="PET_MODULE", origin="torchrun", short="-m"),
    Flag("no-python", "switch", False, "script", "run a program, not a Python script", variables="PET_NO_PYTHON", origin="torchrun"),
    Flag("run-path", "switch", False, "script", "run the script with python, whatever its name", variables="PET_RUN_PATH", origin="torchrun"),
    Flag("python", "text", None, "script", "the workers' interpreter", "PATH", variables="PYTHON_EXEC"),
    Flag("framework", "frameworks", FRAMEWORKS, "script", f"set only these frameworks' variables: {', '.join(FRAMEWORKS)} [all]", "NAMES"),
    Flag("env", "env", (), "script", "set a variable for the workers; can be repeated", "K=V"),
    Flag("interactive", "switch", False, "script", "run one worker, attached to the terminal, so that breakpoint() works"),
    Flag("warm", "modules", (), "script", "modules to import once, before workers start; or auto", "MODULES"),
    Flag("warm-memory", "size", None, "script", "memory limit for interpreters kept ready for a restart [a quarter of free memory]", "SIZE"),
    Flag("legacy-local-rank", "switch", False, "script", "insert --local-rank=N before the script's arguments", origin="torch launch"),
    Flag("use-env", "switch", False, "script", "with python -m flota.torch_launch: do not insert --local-rank", origin="torch launch"),
    Flag("dry-run", "switch", False, "script", "print what would be started, and start nothing"),
    Flag("json", "switch", False, "script", "with --dry_run: print JSON"),
    Flag("version", "switch", False, "script", "print the versions of flota, Python and extras"),
    Flag("help", "help", None, "script", "print this help; --help GROUP or --help all for more", "[GROUP]", short="-h"),
    Flag("start-method", "choice:spawn,fork,forkserver", "spawn", "script", "no effect: each worker is a new process", "METHOD", variables="PET_START_METHOD", origin="torchrun", note="has no effect: each worker is a new process"),
    Flag("legacy", "bool", False, "script", "no effect: flota has a single launcher", origin="paddle launch", note="has no effect: flota has a single launcher"),

    Flag("nproc-per-node", "workers", None, "workers", "number of workers, or gpu, cpu, auto [one per device]", "N", variables="PADDLE_NPROC_PER_NODE PET_NPROC_PER_NODE", origin="paddle launch, torch launch, torchrun"),
    Flag("devices", "text", None, "workers", "devices to use, e.g. 0,1; cpu for none [all visible]", "IDS", variables="PADDLE_DEVICES", origin="paddle launch"),
    Flag("threads", "threads", "auto", "workers", "OMP_NUM_THREADS of each worker [one worker: unset; several: CPUs / workers, or 1 with devices]", "N"),
    Flag("bind", "choice:none,auto,numa,socket,cache,core,node,exclusive,core-complex", "none", "workers", "bind workers to CPUs near their devices: none, auto, numa, socket, cache, core [none]", "MODE"),
    Flag("virtual-local-rank", "switch", False, "workers", "each worker sees only its own device and has LOCAL_RANK 0", variables="PET_VIRTUAL_LOCAL_RANK", origin="torchrun"),
    Flag("backend", "choice:auto,gloo,nccl,bkcl,xccl,heter,flagcx", "auto", "workers", "value of PADDLE_DISTRI_BACKEND [gloo without devices]", "NAME", variables="PADDLE_DISTRI_BACKEND", origin="fleetrun"),
    Flag("role", "text", "default", "workers", "ROLE_NAME of the workers", "NAME", variables="PET_ROLE", origin="torchrun"),
    Flag("port-range", "ports", None, "workers", "choose workers' ports from this range [any free port]", "LOW:HIGH", variables="PORT_RANGE FLAGS_START_PORT", origin="paddle launch"),
    Flag("start-port", "port", 6070, "workers", "give worker i the port PORT + i [free ports]", "PORT", variables="PADDLE_START_PORT", origin="paddle launch"),
    Flag("host", "text", None, "workers", "this machine's address [127.0.0.1, or with several machines the one used to reach the master]", "ADDR", variables="POD_IP", origin="paddle launch"),

    Flag("log-dir", "text", "log", "output", "directory for logs; may have {job_id}, {time} [log]", "DIR", variables="PADDLE_LOG_DIR PET_LOG_DIR", origin="paddle launch, fleetrun, torchrun"),
    Flag("log-overwrite", "bool", False, "output", "start with empty logs [append]", variables="PADDLE_LOG_OVERWRITE", origin="paddle launch"),
    Flag("log-level", "level", "INFO", "output", "lowest level of flota's messages to print: DEBUG, INFO, WARNING, ERROR, CRITICAL [INFO]", "LEVEL", variables="PADDLE_LOG_LEVEL", origin="paddle launch"),
    Flag("log-max-size", "size", None, "output", "rotate a worker's log at this size, e.g. 100M [never]", "SIZE"),
    Flag("log-backups", "count", 5, "output", "rotated logs to keep per worker [5]", "N"),
    Flag("log-timestamps", "switch", False, "output", "print the time before each line on the console"),
    Flag("console", "ranks", "0", "output", "ranks to show: none, all, or a list [0]", "RANKS"),
    Flag("local-ranks-filter", "list", None, "output", "show only these local ranks", "RANKS", variables="PET_LOCAL_RANKS_FILTER", origin="torchrun"),
    Flag("redirects", "streams", None, "output", "write streams to separate files: 0 none, 1 out, 2 err, 3 both, or RANK:N,…", "MASK", variables="PET_REDIRECTS", origin="torchrun", short="-r"),
    Flag("tee", "streams", None, "output", "like --redirects, but also show the output on the console", "MASK", variables="PET_TEE", origin="torchrun", short="-t"),
    Flag("duplicate-stdout-filters", "filters", (), "output", "copy tee'd lines that contain one of these words to filtered_stdout.log", "WORDS", variables="PET_DUPLICATE_STDOUT_FILTERS", origin="torchrun"),
    Flag("duplicate-stderr-filters", "filters", (), "output", "the same for stderr, in filtered_stderr.log", "WORDS", variables="PET_DUPLICATE_STDERR_FILTERS", origin="torchrun"),
    Flag("log-line-prefix-template", "text", "", "output", "begin lines on the console with this text; ${role_name}, ${rank}, ${local_rank} and ${hostname} are replaced", "TEXT", variables="PET_LOG_LINE_PREFIX_TEMPLATE TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", origin="torchrun"),
    Flag("verbose", "switch", False, "output", "print settings and variables at the start, and every failure in full at the end"),
    Flag("quiet", "switch", False, "output", "print only flota's errors; worker output is still shown", short="-q"),
    Flag("view", "switch", False, "output", "show the job on the terminal as flota top does; q goes back to its output"),
    Flag("shared-console", "switch", False, "output", "all nodes share one console, as with srun: print reports once"),
    Flag("progress", "choice:auto,none", "auto", "output", "auto: on a terminal, a line with the step and the pace, if scripts call flota.heartbeat [auto]", "WHEN"),
    Flag("on-event", "command", "", "output", "run this shell command with JSON on stdin after a failure, a hang, a restart and the end", "COMMAND"),
    Flag("dashboard", "listen", None, "output", "serve a page about the job, and print its link [off; 127.0.0.1 and any free port]", "[ADDR:PORT]"),
    Flag("event-log-handler", "choice:null,console,dynamic_rendezvous", "null", "output", "console: also print events as JSON lines on stderr", "WHERE", variables="PET_EVENT_LOG_HANDLER", origin="torchrun"),

    Flag("max-restart", "count", 3, "restarts", "up to N restarts when a worker fails [off; elastic: 3]", "N", variables="PADDLE_MAX_RESTART PET_MAX_RESTARTS", origin="paddle launch"),
    Flag("restart-on", "reasons", (), "restarts", "restart after these failures only: exit codes, signals, exceptions, causes; enables restarts", "LIST"),
    Flag("no-restart-on", "reasons", (), "restarts", "do not restart after these failures", "LIST"),
    Flag("backoff", "duration", 30.0, "restarts", "maximum delay before a restart; the delay doubles with each failure without progress [30s]", "TIME"),
    Flag("crash-loop", "count", 5, "restarts", "end the job after the same failure N times in a row without progress; 0: never [5]", "N"),
    Flag("elastic-level", "choice:-1,0,1", "-1", "restarts", "when a worker fails: 0 its node leaves the job, 1 all workers restart, -1 depends on other flags [-1]", "N", variables="PADDLE_ELASTIC_LEVEL", origin="paddle launch"),
    Flag("grace", "duration", 30.0, "restarts", "time for workers to exit after SIGTERM, before SIGKILL [30s]", "TIME", variables="PET_SHUTDOWN_TIMEOUT TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
    Flag("restart-grace", "duration", None, "restarts", "the same before a restart [--grace, at most 5s]", "TIME"),
    Flag("hang-timeout", "hang", None, "restarts", "fail if no rank makes progress for this long; or auto", "TIME"),
    Flag("native-stacks", "switch", False, "restarts", "with --hang_timeout: include C and C++ frames in saved stacks"),
    Flag("chaos", "faults", None, "restarts", "inject faults, to try the job's recovery: kill, hang, pause, shepherd, node, each about once per TIME; seed=N", "KIND=TIME,…"),
    Flag("preempt-signal", "signal", None, "restarts", "treat this signal like SIGTERM: workers save and exit, e.g. SIGUSR1 from Slurm", "NAME"),
    Flag("preempt-timeout", "duration", None, "restarts", "how long workers that use flota.should_stop or on_stop may take to save [--grace]", "TIME"),
    Flag("stop-before", "duration", None, "restarts", "under Slurm: ask workers to save and exit this long before the time limit", "TIME"),
    Flag("timeout", "limit", None, "restarts", "stop the job, as after SIGTERM, when it has run this long, e.g. 8h", "TIME"),
    Flag("snapshot-memory", "size", None, "restarts", "memory limit for flota.snapshot, for all ranks of a node [a quarter of free memory]", "SIZE"),
    Flag("snapshot-copies", "count", 1, "restarts", "with several machines: send each rank's part of a sharded state to N other nodes [1]", "N"),
    Flag("snapshot-dir", "text", "", "restarts", "also write states of flota.snapshot to files here, for later jobs", "DIR"),
    Flag("snapshot-every", "duration", 600.0, "restarts", "with --snapshot_dir: about how often [10m]", "TIME"),
    Flag("signals-to-handle", "signals", ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"), "restarts", "signals that stop the job [SIGTERM,SIGINT,SIGHUP,SIGQUIT]", "NAMES", variables="PET_SIGNALS_TO_HANDLE", origin="torchrun"),
    Flag("monitor-interval", "duration", 0.1, "restarts", "no effect: flota does not poll workers", "SECS", variables="PET_MONITOR_INTERVAL", origin="torchrun", note="has no effect: flota does not poll workers"),

    Flag("nnodes", "nodes", (1, 1), "nodes", "number of machines: N, or MIN:MAX if it may vary [1]", "N", variables="PADDLE_NNODES PET_NNODES", origin="paddle launch, torch launch, torchrun"),
    Flag("spares", "count", 0, "nodes", "nodes beyond --nnodes that replace lost ones [0]", "N"),
    Flag("evict-stragglers", "factor", None, "nodes", "with --spares: replace nodes that are slower by this", "X"),
    Flag("master", "text", None, "nodes", "where nodes join: HOST:PORT, H1:P,H2:P,H3:P (these run etcd), https://…, etcd://… or etcds://… [chosen]", "ADDR", variables="PADDLE_MASTER", origin="paddle launch", note=ON_ONE_MACHINE),
    Flag("masters", "count", 0, "nodes", "the first N nodes that join at --master run etcd [0]", "N", note=ON_ONE_MACHINE),
    Flag("rank", "int", -1, "nodes", "this node's number [-1: assigned when the nodes join]", "N", variables="PADDLE_RANK PET_NODE_RANK", origin="paddle launch"),
    Flag("job-id", "text", "default", "nodes", "the job's name, also used in log names [default]", "NAME", variables="PADDLE_JOB_ID PET_RDZV_ID", origin="paddle launch"),
    Flag("run-mode", "choice:collective,ps,ps-heter,rpc", "collective", "nodes", "collective, ps, ps-heter or rpc [derived from other flags]", "MODE", variables="PADDLE_RUN_MODE", origin="paddle launch"),
    Flag("ips", "text", "127.0.0.1", "nodes", "addresses of all nodes [127.0.0.1]", "ADDRS", variables="PADDLE_IPS", origin="paddle launch, fleetrun"),
    Flag("sort-ip", "bool", False, "nodes", "number nodes in order of their addresses", variables="PADDLE_SORT_IP", origin="paddle launch", note=ON_ONE_MACHINE),
    Flag("elastic-timeout", "duration", 30.0, "nodes", "with at least MIN nodes, start when none has joined or left for this long; after a loss, at most a second [30s]", "TIME", variables="PADDLE_ELASTIC_TIMEOUT", origin="paddle launch", note=ON_ONE_MACHINE),
    Flag("join-timeout", "duration", 600.0, "nodes", "how long to wait for other nodes, or, on a restart, for a fixed port to become free [10m]", "TIME"),
    Flag("strict", "switch", False, "nodes", "end the job if nodes differ (Python, script, clock …) instead of only warning", note=ON_ONE_MACHINE),
    Flag("network-interface", "text", None, "nodes", "use this network interface and its address, e.g. eth0", "NAME", note=ON_ONE_MACHINE),
    Flag("tls-cert", "text", None, "nodes", "certificate of the master, an etcd member, or for etcd", "FILE", note=ON_ONE_MACHINE),
    Flag("tls-key", "text", None, "nodes", "private key of --tls_cert", "FILE", note=ON_ONE_MACHINE),
    Flag("tls-ca", "text", None, "nodes", "CA certificates to verify the master or etcd with [the system's]", "FILE", note=ON_ONE_MACHINE),
    Flag("srun", "switch", False, "nodes", "in the shell of a Slurm job: start one flota per node, with srun"),
    Flag("hosts", "text", "", "ssh", "start the job over ssh: a,b:8 (8 workers), gpu[01-16], or a group in flota.toml", "HOSTS"),
    Flag("hostfile", "text", "", "ssh", "the same, with the hosts in a file, one per line", "FILE"),
    Flag("ssh-options", "text", "", "ssh", "more options for ssh, as in '-p 2222 -J jump'", "WORDS", note=WITHOUT_HOSTS),
    Flag("chdir", "text", "", "ssh", "working directory on the hosts [this one]", "DIR", note=WITHOUT_HOSTS),
    Flag("remote-python", "text", "", "ssh", "Python interpreter on the hosts, with flota installed [this one]", "PATH", note=WITHOUT_HOSTS),
    Flag("sync", "switch", False, "ssh", "copy this directory to the hosts first, without files that git ignores", note=WITHOUT_HOSTS),
    Flag("forward", "text", "", "ssh", "pass these variables to the hosts", "NAMES", note=WITHOUT_HOSTS),
    Flag("fetch-logs", "switch", False, "ssh", "copy the logs of all hosts to --log_dir/HOST at the end", note=WITHOUT_HOSTS),
    Flag("detach", "switch", False, "ssh", "leave the job running on the hosts", note=WITHOUT_HOSTS),
    Flag("standalone", "switch", False, "nodes", "run on one machine (the default)", variables="PET_STANDALONE", origin="torchrun"),
    Flag("master-addr", "text", "127.0.0.1", "nodes", "host of the master, as in torchrun [127.0.0.1]", "ADDR", variables="PET_MASTER_ADDR", origin="torch launch, torchrun", note=ON_ONE_MACHINE),
    Flag("master-port", "port", 29500, "nodes", "port of the master, as in torchrun [29500]", "PORT", variables="PET_MASTER_PORT", origin="torch launch, torchrun", note=ON_ONE_MACHINE),
    Flag("rdzv-backend", "choice:static,c10d,etcd,etcd-v2", "static", "nodes", "where the nodes join, as in torchrun: static or c10d (at the master), etcd or etcd-v2 (at an etcd server)", "NAME", variables="PET_RDZV_BACKEND", origin="torchrun", note=ON_ONE_MACHINE),
    Flag("rdzv-endpoint", "text", "", "nodes", "HOST[:PORT] of the rendezvous, as in torchrun; default port 29400 (c10d), 29500 (static), 2379 (etcd)", "ADDR", variables="PET_RDZV_ENDPOINT", origin="torchrun", note=ON_ONE_MACHINE),
    Flag("rdzv-conf", "text", "", "nodes", "torchrun's settings: join_timeout, last_call_timeout (--elastic_timeout), is_host", "K=V,…", variables="PET_RDZV_CONF", origin="torchrun", note=ON_ONE_MACHINE),

    Flag("server-num", "count", None, "roles", "parameter servers on this node [1 in parameter-server jobs]", "N", variables="PADDLE_SERVER_NUM", origin="paddle launch, fleetrun"),
    Flag("trainer-num", "count", None, "roles", "trainers on this node [1 in parameter-server jobs]", "N", variables="PADDLE_TRAINER_NUM", origin="paddle launch"),
    Flag("servers", "text", "", "roles", "addresses of all parameter servers of the job", "ADDRS", variables="PADDLE_SERVERS_ENDPOINTS", origin="paddle launch, fleetrun"),
    Flag("trainers", "text", "", "roles", "addresses of all trainers of the job; ports are optional", "ADDRS", variables="PADDLE_TRAINERS_ENDPOINTS", origin="paddle launch"),
    Flag("heter-workers", "text", "", "roles", "addresses of all heterogeneous workers, with ; between stages", "ADDRS", origin="paddle launch"),
    Flag("heter-worker-num", "text", None, "roles", "heterogeneous workers on this node; 1;2 for two stages", "N", origin="paddle launch"),
    Flag("heter-devices", "text", "", "roles", "device kind of heterogeneous workers, for all or per stage: gpu;cpu [what this machine has]", "KINDS", origin="fleetrun"),
    Flag("coordinators", "text", "", "roles", "addresses of all coordinators", "ADDRS", origin="fleetrun"),
    Flag("coordinator-num", "count", None, "roles", "coordinators on this node [0]", "N", origin="fleetrun"),
    Flag("roles", "roles", (), "roles", "workers of each role on this node; more settings in [roles.NAME] of flota.toml", "NAME=N,…"),
    Flag("gloo-port", "port", 6767, "roles", "port of gloo's store, one for the whole job [6767 with --servers, else any free port]", "PORT", variables="PADDLE_GLOO_PORT", origin="paddle launch", note=WITHOUT_SERVERS),
    Flag("with-gloo", "choice:0,1,2", "0", "roles", "use gloo among trainers (1), among all workers (2) or not at all (0) [0]", "N", variables="PADDLE_WITH_GLOO", origin="paddle launch", note=WITHOUT_SERVERS),

    Flag("auto-parallel-config", "text", None, "refused", "Paddle's auto-parallel tuner", origin="paddle launch", refused="flota does not support Paddle's auto-parallel tuner"),
    Flag("auto-cluster-config", "bool", False, "refused", "Paddle's auto-parallel tuner", origin="paddle launch", refused="flota does not support Paddle's auto-parallel tuner"),
    Flag("auto-tuner-json", "text", None, "refused", "Paddle's auto-tuner", origin="paddle launch", refused="flota does not support Paddle's auto-tuner"),
    Flag("cluster-topo-path", "text", None, "refused", "Paddle's cluster topology", origin="fleetrun", refused="flota does not map ranks from a topology file"),
    Flag("rank-mapping-path", "text", None, "refused", "Paddle's rank mapping", origin="fleetrun", refused="flota does not map ranks from a file"),
    Flag("enable-auto-mapping", "bool", False, "refused", "Paddle's rank mapping", origin="fleetrun", refused="flota does not map ranks from a file"),
    Flag("elastic-pre-hook", "text", None, "refused", "a command to run before each round", origin="fleetrun", refused="run it in each worker, as in `flota --no_python sh -c 'COMMAND; exec python train.py'`"),
    Flag("scale", "text", None, "refused", "resize an elastic job", origin="fleetrun", refused="start or stop nodes instead; an elastic job adapts"),
    Flag("force", "text", None, "refused", "force an elastic job to resize", origin="fleetrun", refused="start or stop nodes instead; an elastic job adapts"),
    Flag("logs-specs", "text", "default", "refused", "torchrun's log plug-ins", origin="torchrun", refused="flota has no log plug-ins"),
    Flag("enable-gpu-log", "bool", False, "refused", "Paddle's GPU utilization log", origin="paddle launch", refused="run the driver's monitor alongside the job, as in `nvidia-smi dmon`"),
)
# fmt: on

ALIASES = (
    Alias("gpus", "devices", "paddle launch, fleetrun", deprecated=True),
    Alias("gpu", "devices", "paddle launch", deprecated=True),  # an abbreviation that many scripts have
    Alias("npus", "devices", "paddle launch", deprecated=True),
    Alias("xpus", "devices", "paddle launch", deprecated=True),
    Alias("mlus", "devices", "paddle launch", deprecated=True),
    Alias("selected-gpus", "devices", "fleetrun", deprecated=True),
    Alias("selected-xpus", "devices", "fleetrun", deprecated=True),
    Alias("numa-binding", "bind", "torchrun"),
    Alias("local-addr", "host", "torchrun", variables="PET_LOCAL_ADDR"),
    Alias("max-restarts", "max-restart", "torchrun"),
    Alias("shutdown-timeout", "grace", "torchrun"),
    Alias("node-rank", "rank", "torch launch, torchrun"),
    Alias("nnode", "nnodes", "paddle launch, torch launch, torchrun"),  # an abbreviation that many scripts have
    Alias("np", "nnodes", "paddle launch", deprecated=True, variables="PADDLE_ELASTIC_NP"),
    Alias("elastic-server", "master", "paddle launch", deprecated=True, variables="PADDLE_ELASTIC_SERVER"),
    Alias("rdzv-id", "job-id", "torchrun", variables="PADDLE_ELASTIC_JOB_ID"),
    Alias("workers", "trainers", "paddle launch, fleetrun", deprecated=True),
    Alias("worker-num", "trainer-num", "paddle launch, fleetrun", deprecated=True),
    Alias("http-port", "gloo-port", "paddle launch", deprecated=True),
)

DEPRECATED = {"ips"}

# Flags that define the job's roles.
ROLE_FLAGS = tuple(flag.dest for flag in FLAGS if flag.group == "roles" and flag.note != WITHOUT_SERVERS)

BY_NAME = {flag.name: flag for flag in FLAGS}
BY_SHORT = {flag.short: flag for flag in FLAGS if flag.short}
ALIAS_OF = {alias.name: alias for alias in ALIASES}


def find_flag(name: str, rows: dict[str, Flag] = BY_NAME) -> Flag | None:
    """Find a row by a flag's name or alias, without leading dashes."""
    dashed = name.replace("_", "-")
    return rows.get(ALIAS_OF[dashed].of if dashed in ALIAS_OF and dashed not in rows else dashed)
