"""Every error that flota reports to users, with its message, hint and exit code."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVarTuple, Unpack

    Facts = TypeVarTuple("Facts")

USAGE = 2
BUG = 70
TRY_AGAIN = 75
HANG = 124  # as timeout(1) returns

MORE_FILES = "run `ulimit -n 65536` first"
# flota is installed from a clone: no package index has it yet.
INSTALL_SPY = "run `pip install py-spy`, or `pip install '.[stacks]'` in a clone of flota"
# After EAGAIN from fork().
PROCESS_LIMIT_HINT = "raise the process limit: `ulimit -u`, or the container's (`docker run --pids-limit`, pids.max)"


class FlotaError(Exception):
    """An error that is reported to the user with a message and a hint."""

    exit_code = USAGE
    message: str
    hint: str = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The hint is included for tracebacks, where nothing else shows it."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the finished message: subclasses have constructors with other arguments."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


if TYPE_CHECKING:

    class TemplateError(FlotaError, Generic[Unpack[Facts]]):  # noqa: UP044  workers have Python 3.8
        """An error whose message and hint are templates. The brackets list the types of `{0}`, `{1}` and so on."""

        def __init__(self, *facts: Unpack[Facts]) -> None: ...  # noqa: UP044

else:

    class TemplateError(FlotaError):
        def __init__(self, *facts):
            super().__init__(self.message.format(*facts), self.hint.format(*facts))

        def __class_getitem__(cls, kinds):
            return cls


class UnknownFlag(FlotaError):
    def __init__(self, flag: str, near: str, hint: str = "") -> None:
        otherwise = "the script's flags go after the script; run `flota --help all` to list flota's flags"
        super().__init__(f"unknown flag `{flag}`", hint or (f"did you mean {near}?" if near else otherwise))


class AbbreviatedFlag(FlotaError):
    def __init__(self, flag: str, names: list[str]) -> None:
        super().__init__(f"abbreviated flag `{flag}`", f"write {' or '.join(names)}")


class MissingValue(FlotaError):
    def __init__(self, flag: str, metavar: str) -> None:
        super().__init__(f"{flag} needs a value", f"write {flag} {metavar or 'VALUE'}")


class BadValue(FlotaError):
    def __init__(self, flag: str, given: str, expected: str, example: str) -> None:
        super().__init__(f"{flag} needs {expected}: `{given}`", f"for example {example}" if example else "")
        self.expected = expected


class UnknownKey(FlotaError):
    def __init__(self, file: str, key: str, near: str) -> None:
        hint = f"did you mean `{near}`?" if near else "run `flota --help all`: keys are flag names"
        super().__init__(f"unknown key `{key}` in {file}", hint)


class BadConfigFile(TemplateError[str, str]):
    message = "cannot read {0}: {1}"
    hint = "fix the file or remove it"


class NoScript(FlotaError):
    def __init__(self, example: str = "flota train.py") -> None:
        super().__init__("no script given", f"run `{example}`, or `flota --help` for help")


class MissingScript(FlotaError):
    def __init__(self, path: str, near: str) -> None:
        otherwise = "check the path; flota's flags go before the script"
        super().__init__(f"no such script: `{path}`", f"did you mean `{near}`?" if near else otherwise)


class ScriptIsDirectory(TemplateError[str, str]):
    message = "the script is a directory: `{0}`"
    hint = "name a file in it, e.g. `flota {1}`"


class MissingProgram(FlotaError):
    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"no such program: `{name}`", hint or f"run `command -v {name}` to see whether it is on PATH")


class BadInterpreter(TemplateError[str]):
    message = "no interpreter at `{0}`"
    hint = "name another with --python PATH"


class RefusedFlag(FlotaError):
    def __init__(self, flag: str, why: str, hint: str = "leave it out") -> None:
        super().__init__(f"cannot use `{flag}`: {why}", hint)


class Contradiction(TemplateError[str, str, str]):
    message = "{0} and {1} contradict each other: {2}"
    hint = "give {0} or {1}, not both"


class OnlyWith(TemplateError[str, str]):
    message = "{0} has an effect only with {1}"
    hint = "add {1}"


class NeedsUseEnv(TemplateError[str]):
    message = "{0}: a program may not accept the --local-rank that flota would insert"
    hint = "add --use-env"


def spelled(name: str, value: str) -> str:
    """A flag or a Python option with a value, as the user would write it."""
    return f"{name} {value}" if name.startswith("-") else f"{name}={value!r}"


class UnknownDevice(FlotaError):
    def __init__(self, device: str, kind: str, visible: tuple[str, ...], option: str = "--devices") -> None:
        words = f"unknown {kind} device `{device}`: this machine has `{','.join(visible)}`"
        hint = f"choose one of these, e.g. {spelled(option, visible[0])}" if visible else ""
        if not visible:
            words = f"unknown device `{device}`: this machine has no devices"
            none = spelled("--devices" if option.startswith("-") else "devices", "cpu")
            hint = f"leave {option} out, or write {none}"
        super().__init__(words, hint)


class RepeatedDevice(FlotaError):
    def __init__(self, device: str, option: str = "--devices") -> None:
        super().__init__(f"{option} names `{device}` twice", "name each device once")


class TooManyWorkers(TemplateError[int, int]):
    message = "{0} workers need {0} devices, but --devices lists only {1}"
    hint = "use --nproc_per_node {1}, or list {0} devices"


class NoDevices(FlotaError):
    def __init__(self, asked: str) -> None:
        flag = asked.partition(" ")[0]
        super().__init__(f"{asked}: this machine has no such device", f"use another value, e.g. {flag} cpu")


class NodeRankOutOfRange(FlotaError):
    def __init__(self, rank: int, nodes: int) -> None:
        hint = f"use --rank 0 to --rank {nodes - 1}, or leave it out" if nodes > 1 else "leave it out"
        super().__init__(f"--rank {rank} is out of range: the job has {nodes} node{'s' * (nodes > 1)}", hint)


class NoWorkersHere(TemplateError[()]):
    message = "this node would start no worker of any role"
    hint = "set the number of workers of a role, e.g. --trainer_num 1 or --roles trainer=1"


class BadPlatformValue(TemplateError[str, str, str, str]):
    message = "{0}'s {1} is not {3}: `{2}`"
    hint = "name the nodes: --nnodes 2 --master 10.0.0.1:8090 --rank 0, or use --nnodes 1 for this machine alone"


class ForeignAddress(TemplateError[str]):
    message = "`{0}` is not an address of this machine"
    hint = "run `ip -brief address` to list its addresses"


class MasterWithoutPort(TemplateError[str, str]):
    message = "{0} has no port: `{1}`"
    hint = "add a free port, e.g. --master {1}:8090"


class MasterWithoutNodes(TemplateError[str]):
    message = "{0} is given without the number of nodes"
    hint = "add --nnodes 2, or --nnodes 1 to run on this machine alone"


class SecretInAddress(TemplateError[str]):
    message = "{0} contains a user name or password, which every user of this machine can see"
    hint = "set FLOTA_ETCD_USER and FLOTA_ETCD_PASSWORD, or FLOTA_ETCD_PASSWORD_FILE, and leave it out of the address"


class UnreadableFile(FlotaError):
    def __init__(self, source: str, path: str, why: str) -> None:
        hint = f"run `ls -l {path}` to check its permissions"
        if source == "FLOTA_TOKEN_FILE":
            hint = "copy the file here from the node that made it, or set the same FLOTA_TOKEN on all nodes"
        super().__init__(f"cannot read {source} `{path}`: {why}", hint)


class BadToken(TemplateError[str]):
    message = "the token in {0} is empty, or contains spaces or non-ASCII characters"
    hint = "create one with `openssl rand -hex 16`, and use it on all nodes"


class NotAmongNodes(FlotaError):
    def __init__(self, flag: str, hosts: tuple[str, ...], own: list[str]) -> None:
        hint = "add the address that other nodes use for this machine; run `ip -brief address` to list its addresses"
        super().__init__(f"this machine is not in {flag} `{','.join(hosts)}`: it has `{','.join(own)}`", hint)


class SeveralAmongNodes(FlotaError):
    def __init__(self, flag: str, hosts: tuple[str, ...]) -> None:
        words = f"{flag} lists more than one address of this machine: `{','.join(hosts)}`"
        super().__init__(words, f"choose one with --host, e.g. --host {hosts[0]}")


class UnknownInterface(FlotaError):
    def __init__(self, flag: str, name: str, known: list[str]) -> None:
        words = f"{flag}: no interface `{name}` is up and has an address; available: `{','.join(known)}`"
        super().__init__(words, f"choose one of these, e.g. --network-interface {known[-1] if known else 'eth0'}")


class UnknownPlaceholder(FlotaError):
    def __init__(self, source: str, path: str, part: str) -> None:
        what = f"`{part}` is not a placeholder" if len(part) > 1 else f"unmatched `{part}`"
        flag = "log_dir=" if source == "log_dir" else "--log_dir "
        hint = f"use {{job_id}}, {{time}}, {{host}} or {{pid}}, as in {flag}'runs/{{job_id}}/{{time}}'"
        super().__init__(f"{source} `{path}`: {what}", hint)


class UnwritableLogDir(FlotaError):
    def __init__(self, path: str, why: str, option: str = "--log_dir") -> None:
        words = f"cannot write to the log directory `{path}`: {why}"
        super().__init__(words, f"choose another with {spelled(option, 'DIR')}")


class LogDirInUse(FlotaError):
    def __init__(self, path: str, owner: str, option: str = "--log_dir") -> None:
        words = f"another job is writing to the log directory `{path}`{owner}"
        super().__init__(words, f"choose another with {spelled(option, 'DIR')}")


class TooManyProcesses(TemplateError[()]):
    message = "cannot start another process: the process limit has been reached"
    hint = PROCESS_LIMIT_HINT


class TooFewPorts(TemplateError[int, int, int, int]):
    message = "{0} free ports are needed, but {2}:{3} has only {1}"
    hint = "widen --port-range LOW:HIGH"


class TooManyOpenFiles(TemplateError[int]):
    message = "{0} ports are needed, more than the limit on open files allows"
    hint = MORE_FILES


class TooFewFiles(TemplateError[int, int, int]):
    message = "this process may open only {0} files, but needs {2} to watch {1} workers"
    hint = MORE_FILES


class OutOfFiles(TemplateError[()]):
    message = "this process has no file descriptors left"
    hint = MORE_FILES


class NoWorkingDirectory(TemplateError[()]):
    message = "the working directory no longer exists"
    hint = "change to a directory that exists"


class PortInUse(FlotaError):
    def __init__(self, port: int, owner: str = "") -> None:
        hint = f"run `ss -ltnp sport = :{port}` to find the process, or choose another port"
        super().__init__(f"port {port} is in use{f' by {owner}' if owner else ''}", hint)


class UnsupportedSystem(TemplateError[str]):
    message = "flota does not run on {0}"
    hint = "run it on Linux"


class VariableTooLong(TemplateError[str, int]):
    message = "{0} would be {1} bytes, more than an environment variable can hold"
    hint = "use fewer workers, or another --framework"


class CannotServe(TemplateError[str, str]):
    message = "cannot listen for the job's nodes at {0}: {1}"
    hint = "choose another with --master HOST:PORT"


class BadCertificate(TemplateError[str, str]):
    message = "cannot use `{0}` for TLS: {1}"
    hint = "run `openssl x509 -text -in FILE` to inspect it"


class MissingPackage(TemplateError[str]):
    message = "jobs on several machines need the package {0}"
    hint = "run `pip install h11 msgspec`"


class NoneOfRole(TemplateError[str, str, str]):
    message = "{0}: the job would have no {1}s"
    hint = "{2}"


class NoAddresses(FlotaError):
    def __init__(self, role: str, flag: str, counted: str) -> None:
        but = f"; {counted} sets a number, not addresses" if counted else ""
        hint = f"list all of them, e.g. {flag} 10.0.0.1:6170,10.0.0.2:6170"
        super().__init__(f"no address for a {role} on any node{but}", hint)


class UnusedScript(TemplateError[str, str]):
    message = "`{0}` would not be run: every role in {1} has its own script"
    hint = "run `flota` without a script, or run it from a directory without that file"


class DuplicateEndpoint(FlotaError):
    def __init__(self, endpoint: str, one: str, other: str) -> None:
        who = f"two {one}s" if one == other else f"a {one} and a {other}"
        super().__init__(f"`{endpoint}` is listed twice, for {who}", "use a different port for each")


class RolesCollide(TemplateError[str, str, str]):
    message = "the roles `{0}` and `{1}` would {2}"
    hint = "rename one of them"


class MissingIpuArguments(FlotaError):
    def __init__(self, names: list[str], example: str) -> None:
        hint = f"write `{example}`; to run a file named ipu, write `flota ./ipu`"
        super().__init__(f"`ipu` needs {', '.join(names)}", hint)


class UnevenIpus(FlotaError):
    def __init__(self, ipus: int, step: int, why: str) -> None:
        below = ipus // step * step
        even = [f"--devices {count}" for count in (below, below + step) if count]
        super().__init__(f"--devices {ipus}: {why}", f"use {' or '.join(even)}")


class NoReport(TemplateError[str]):
    message = "no job has written a report or events to `{0}`"
    hint = "name its log directory: flota why LOG_DIR"


class NoRunningJob(TemplateError[str]):
    message = "no running job on this machine uses the log directory `{0}`"
    hint = "name its log directory with --log_dir DIR"


class NoSuchRank(TemplateError[int, str]):
    message = "rank {0} is not running on this machine; running here: {1}"
    hint = "run `flota stack` without ranks to find its machine, and run the command there"


class PySpyMissing(TemplateError[()]):
    message = "py-spy, which reads stacks, is not installed"
    hint = INSTALL_SPY


class StacksUnreadable(TemplateError[str]):
    message = "cannot read stacks: {0}"
    hint = (
        "run it as the job's user, or as root if `sysctl kernel.yama.ptrace_scope` is not 0; "
        "start containers with --cap-add SYS_PTRACE"
    )
