"""Every error a user can meet: its words, its hint, its exit code. Nothing else raises to the user."""

from __future__ import annotations

USAGE = 2
BUG = 70
TRY_AGAIN = 75
HANG = 124  # as timeout(1) ends


class FlotaError(Exception):
    """Something in the user's world that flota cannot go on with."""

    exit_code = USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """For a traceback, which is all that a program shows of an error that it does not expect."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """As it is: how each kind makes its words out of facts does not matter to a process that is sent one."""
        return _same_error, (type(self), self.__dict__, self.args)


def _same_error(kind: type[FlotaError], facts: dict[str, object], args: tuple[object, ...]) -> FlotaError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class UnknownFlag(FlotaError):
    def __init__(self, flag: str, near: str) -> None:
        hint = f"did you mean {near}?" if near else "run `flota --help all` for every flag"
        super().__init__(f"unknown flag `{flag}`", hint)


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


class BadConfigFile(FlotaError):
    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"cannot read {file}: {why}", "mend the file or move it away")


class NoScript(FlotaError):
    def __init__(self, example: str = "flota train.py") -> None:
        super().__init__("no script given", f"write `{example}`, or `flota --help`")


class MissingScript(FlotaError):
    def __init__(self, path: str, near: str) -> None:
        hint = (
            f"did you mean `{near}`?" if near else "run `ls` to see what is here; flags of flota go before the script"
        )
        super().__init__(f"no such script: `{path}`", hint)


class ScriptIsDirectory(FlotaError):
    def __init__(self, path: str) -> None:
        super().__init__(
            f"the script is a directory: `{path}`", f"name a file in it, as in `flota {path.rstrip('/')}/train.py`"
        )


class MissingProgram(FlotaError):
    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"no such program: `{name}`", hint or f"run `command -v {name}` to see whether it is on PATH")


class BadInterpreter(FlotaError):
    def __init__(self, path: str) -> None:
        super().__init__(f"no interpreter at `{path}`", "name another with --python PATH")


class RefusedFlag(FlotaError):
    def __init__(self, flag: str, why: str, hint: str = "leave it out") -> None:
        super().__init__(f"`{flag}` is refused: {why}", hint)


class Contradiction(FlotaError):
    def __init__(self, one: str, other: str, why: str) -> None:
        super().__init__(f"{one} and {other} contradict each other: {why}", f"give {one} or {other}, not both")


class OnlyWith(FlotaError):
    def __init__(self, flag: str, other: str) -> None:
        super().__init__(f"{flag} means something only with {other}", f"add {other}")


class NeedsUseEnv(FlotaError):
    def __init__(self, flag: str) -> None:
        super().__init__(f"{flag}: a program may not take the --local-rank that would be inserted", "add --use-env")


def spelled(name: str, value: str) -> str:
    """A value as it is given to a flag, or to an option of a Python function."""
    return f"{name} {value}" if name.startswith("-") else f"{name}={value!r}"


class UnknownDevice(FlotaError):
    def __init__(self, device: str, kind: str, visible: tuple[str, ...], option: str = "--devices") -> None:
        if visible:
            listed = ",".join(visible)
            super().__init__(
                f"unknown {kind} device `{device}`: this machine shows `{listed}`",
                f"choose from them, as in {spelled(option, visible[0])}",
            )
        else:
            super().__init__(
                f"unknown device `{device}`: this machine shows no device",
                f"leave {option} out, or write {spelled('--devices' if option.startswith('-') else 'devices', 'cpu')}",
            )


class RepeatedDevice(FlotaError):
    def __init__(self, device: str, option: str = "--devices") -> None:
        super().__init__(f"{option} names `{device}` twice", "name each device once")


class TooManyWorkers(FlotaError):
    def __init__(self, workers: int, devices: int) -> None:
        super().__init__(
            f"{workers} workers for {devices} devices named by --devices",
            f"use --nproc_per_node {devices}, or name {workers} devices",
        )


class NoDevices(FlotaError):
    def __init__(self, asked: str) -> None:
        flag = asked.partition(" ")[0]
        super().__init__(f"{asked}: this machine shows no such device", f"give {flag} another value, as in {flag} cpu")


class NodeRankOutOfRange(FlotaError):
    def __init__(self, rank: int, nodes: int) -> None:
        hint = f"use --rank 0 to --rank {nodes - 1}, or leave it out" if nodes > 1 else "leave it out"
        super().__init__(f"--rank {rank} in a job of {nodes} node{'s' * (nodes > 1)}", hint)


class NoWorkersHere(FlotaError):
    def __init__(self) -> None:
        hint = "give a role a count, as in --trainer_num 1 or --roles trainer=1"
        super().__init__("this node would start no worker of any role", hint)


class BadPlatformValue(FlotaError):
    def __init__(self, platform: str, variable: str, given: str, expected: str) -> None:
        super().__init__(
            f"{platform}'s {variable} is not {expected}: `{given}`",
            "say who takes part: --nnodes 2 --master 10.0.0.1:8090 --rank 0, or --nnodes 1 for this machine alone",
        )


class ForeignAddress(FlotaError):
    def __init__(self, address: str) -> None:
        super().__init__(f"`{address}` is not an address of this machine", "run `ip -brief address` to see which are")


class MasterWithoutPort(FlotaError):
    def __init__(self, flag: str, given: str) -> None:
        super().__init__(f"{flag} has no port: `{given}`", f"add one that is free there, as in --master {given}:8090")


class SecretInAddress(FlotaError):
    def __init__(self, flag: str) -> None:
        super().__init__(
            f"{flag} holds more than addresses: a user or a password there is seen by everyone on the machine",
            "set FLOTA_ETCD_USER and FLOTA_ETCD_PASSWORD, or FLOTA_ETCD_PASSWORD_FILE, and leave it out of the address",
        )


class UnreadableFile(FlotaError):
    def __init__(self, source: str, path: str, why: str) -> None:
        hint = f"run `ls -l {path}` to see who may"
        if source == "FLOTA_TOKEN_FILE":
            hint = "copy the file here from the node that made it, or set the same FLOTA_TOKEN on all nodes"
        super().__init__(f"cannot read {source} `{path}`: {why}", hint)


class BadToken(FlotaError):
    def __init__(self, source: str) -> None:
        super().__init__(
            f"the token of {source} is empty, or has spaces or other characters than ASCII",
            "make one with `openssl rand -hex 16`, the same for all nodes",
        )


class NotAmongNodes(FlotaError):
    def __init__(self, flag: str, hosts: tuple[str, ...], own: list[str]) -> None:
        super().__init__(
            f"this machine is not in {flag} `{','.join(hosts)}`: it has `{','.join(own)}`",
            "add the address by which the others reach this machine; run `ip -brief address` to see which it has",
        )


class SeveralAmongNodes(FlotaError):
    def __init__(self, flag: str, hosts: tuple[str, ...]) -> None:
        super().__init__(
            f"{flag} has more than one address of this machine: `{','.join(hosts)}`",
            f"say which one is this node's with --host {hosts[0]}",
        )


class UnknownInterface(FlotaError):
    def __init__(self, flag: str, name: str, known: list[str]) -> None:
        super().__init__(
            f"{flag}: no interface `{name}` that is up and has an address: there are `{','.join(known)}`",
            f"choose from them, as in --network-interface {known[-1] if known else 'eth0'}",
        )


class UnwritableLogDir(FlotaError):
    def __init__(self, path: str, why: str, option: str = "--log_dir") -> None:
        words = f"cannot write to the log directory `{path}`: {why}"
        super().__init__(words, f"choose another with {spelled(option, 'DIR')}")


class LogDirInUse(FlotaError):
    def __init__(self, path: str, owner: str, option: str = "--log_dir") -> None:
        words = f"another job is writing to the log directory `{path}`{owner}"
        super().__init__(words, f"choose another with {spelled(option, 'DIR')}")


class TooFewPorts(FlotaError):
    def __init__(self, needed: int, free: int, low: int, high: int) -> None:
        super().__init__(f"{needed} free ports needed, {free} found in {low}:{high}", "widen --port-range LOW:HIGH")


class TooManyOpenFiles(FlotaError):
    def __init__(self, needed: int) -> None:
        words = f"ports needed: {needed}, more than this process may have open files"
        super().__init__(words, "run `ulimit -n 65536` first")


class NoWorkingDirectory(FlotaError):
    def __init__(self) -> None:
        super().__init__("the working directory does not exist any more", "run `cd` to one that does")


class PortInUse(FlotaError):
    def __init__(self, port: int, owner: str = "") -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(
            f"port {port} is in use{by}", f"run `ss -ltnp sport = :{port}` to see by whom, or choose another"
        )


class UnsupportedSystem(FlotaError):
    def __init__(self, system: str) -> None:
        super().__init__(f"flota does not run on {system}", "run it on Linux")


class VariableTooLong(FlotaError):
    def __init__(self, name: str, length: int) -> None:
        super().__init__(
            f"{name} would be {length} bytes, more than a process can be given",
            "use fewer workers, or another --framework",
        )


class CannotServe(FlotaError):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"cannot serve the job's master at {where}: {why}", "choose another with --master HOST:PORT")


class BadCertificate(FlotaError):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"cannot use `{path}` for TLS: {why}", "run `openssl x509 -text -in FILE` to look at it")


class MissingPackage(FlotaError):
    def __init__(self, name: str) -> None:
        super().__init__(f"jobs on many machines need the package {name}", "run `pip install h11 msgspec`")
