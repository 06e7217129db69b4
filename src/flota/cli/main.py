"""The command: from argv to an exit code. Only this module prints errors; only this package reads argv and exits."""

from __future__ import annotations

import gc
import os
import sys

from flota import errors
from flota.cli import INTERRUPTED
from flota.errors import BUG, FlotaError, OutOfFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.cli.settings import Request
    from flota.job.report import Report
    from flota.job.spec import JobSpec

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # set for flota itself: the parent's, also if that is a flota
HIDDEN = ("devices", "env")  # shown as gpus; may contain secrets


def main(
    argv: list[str] | None = None,
    *,
    interpreter: str | None = None,
    legacy_local_rank: bool = False,
    lifeline: int = -1,
) -> int:
    """Run flota with these arguments and return its exit code. Without arguments, use sys.argv and exit the process.

    `lifeline`: a descriptor whose end stops this node.
    """
    if argv is None:
        gc.disable()  # enabled again after the workers have started; until then there is nothing to collect
        open_standard_streams()
        exit_process(main(sys.argv[1:], interpreter=interpreter, legacy_local_rank=legacy_local_rank))
    assert argv is not None
    try:
        return _dispatch(argv, interpreter, lifeline, legacy_local_rank=legacy_local_rank)
    except FlotaError as error:
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return 1  # the reader of --help or --dry-run closed the pipe
    except Exception as error:
        if is_out_of_files(error):
            _print_error(OutOfFiles())
            return OutOfFiles.exit_code
        # A bug in flota.
        import traceback

        traceback.print_exc()
        sys.stderr.write("flota: error: this is a bug in flota; please report it with the traceback above\n")
        return BUG


def is_out_of_files(error: Exception) -> bool:
    """EMFILE or ENFILE, also of an import: a module whose file cannot be opened is an ImportError."""
    code = error.errno if isinstance(error, OSError) else 0
    return code in (23, 24) or (isinstance(error, ImportError) and os.strerror(24) in str(error))


def exit_process(code: int) -> None:
    """Skip the interpreter's own cleanup: it takes 5 ms, and flota does not need it."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass  # the reader closed the pipe
    except OSError:
        code = code or 1  # e.g. a full disk: the output is incomplete
    os._exit(code)


def _dispatch(words: list[str], interpreter: str | None, lifeline: int, *, legacy_local_rank: bool) -> int:
    if words and words[0].isidentifier():  # most scripts have a dot or a slash: skip the lookup for them
        from flota.cli.commands import find_subcommand

        subcommand = find_subcommand(words[0])
        if subcommand:
            return subcommand(words[1:])
    from flota.cli.parse import parse  # not above: `main` has to disable the collector first

    if words[:1] == ["run"]:
        words = words[1:]
    if legacy_local_rank:
        words = ["--legacy-local-rank", *words]
    line = parse(words)
    if "help" in line.given:
        from flota.cli.help import print_help

        return print_help(str(line.given["help"].value), torch_launch=legacy_local_rank)
    if "version" in line.given:
        from flota.cli.version import print_version

        return print_version()
    if sys.platform == "win32":
        raise errors.UnsupportedSystem("Windows")
    if not hasattr(os, "waitid"):
        raise errors.UnsupportedSystem("a Python without os.waitid (macOS before 3.13)")
    if "hosts" in line.given or "hostfile" in line.given:
        from flota.cli.ssh_job import run_over_ssh

        return run_over_ssh(words, os.environ)
    from flota.cli.settings import read_request

    return _run(read_request(line, interpreter), lifeline)


def open_standard_streams() -> None:
    """Open those that the caller closed. Otherwise another file would get the number, and worker output with it."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")


def _run(request: Request, lifeline: int) -> int:
    from flota.cli.build_spec import make_spec

    if request.settings["srun"]:
        from flota.cli.engine_job import start_with_srun

        code = start_with_srun(request)
        if code is not None:
            return code
    spec = make_spec(request)
    if lifeline >= 0:
        spec = spec._replace(lifeline=lifeline)
    if request.settings["dry_run"]:
        from flota.cli.dry_run import print_plan

        return print_plan(spec, request.environ, as_json=request.settings["json"])
    if spec.view:
        from flota.cli.require_view import require_view

        require_view(request.settings.source("view"))
    shown = configuration(request, spec) if shows_settings(spec) else ()
    report = run_job(spec, request.environ, shown, startup_notes(request, spec))
    if report.failed and os.environ.get(ERROR_FILE):
        from flota.failures.error_file import write_error_file

        trouble = write_error_file(os.environ[ERROR_FILE], report)
        if trouble:
            sys.stderr.write(f"flota: warning: {trouble}\n")
    return report.exit_code


def run_job(
    spec: JobSpec, environ: Mapping[str, str], shown: tuple[tuple[str, str], ...], notes: tuple[str, ...]
) -> Report:
    """Run a job on this machine only, or as one of its nodes."""
    from flota.run.start import run

    if not spec.nodes:
        return run(spec, environ, shown, notes)
    try:
        from flota.cluster.multi_node import run_multi_node
    except ModuleNotFoundError as error:
        raise errors.MissingPackage(error.name or "h11") from None
    return run(spec, environ, shown, notes, run_multi_node)


def startup_notes(request: Request, spec: JobSpec) -> tuple[str, ...]:
    """Notes printed at the start: flags that are deprecated, and flags and variables that have no effect."""
    from flota.cli.flags import ON_ONE_MACHINE, WITHOUT_SERVERS
    from flota.cli.settings import unknown_variables
    from flota.job.spec import WARNING

    notes = [note for note in request.line.notes if not (spec.roles and note.endswith(WITHOUT_SERVERS))]
    warnings = unknown_variables(request.environ)
    signals = [name for name in request.settings["signals_to_handle"] if name not in spec.stop_signals]
    if signals:
        warnings.append(f"{request.settings.source('signals_to_handle')}: cannot handle {', '.join(signals)}")
    notes += [f"{WARNING}{text}" for text in warnings]
    if spec.bindings and spec.log.level == "DEBUG":
        from flota.cli.bindings import memory_notes

        notes += memory_notes()
    if spec.nodes is None:
        return tuple(notes)
    from flota.cli.nodes_spec import member_notes, node_notes

    return (
        *(note for note in notes if not note.endswith(ON_ONE_MACHINE)),
        *node_notes(request.settings, request.environ),
        *member_notes(spec.nodes),
    )


def shows_settings(spec: JobSpec) -> bool:
    """Whether to print the block of settings and the table of variables, as Paddle's launcher does."""
    from_paddle = spec.frameworks == ("paddle",) or os.path.basename(sys.argv[0]) == "fleetrun"
    return spec.log.verbose or from_paddle


def configuration(request: Request, spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """The rows of the block of settings: those that fleetrun prints, and all other settings that were given."""
    from flota.cli.settings import format_value

    line, settings = request.line, request.settings
    rows = {"gpus": ",".join(spec.devices.chosen) or "None"}
    rows |= {"ips": ",".join(spec.nodes.hosts if spec.nodes else ()) or spec.address}
    rows |= {dest: str(settings[dest]) for dest in ("log_dir", "server_num", "servers")}
    if line.script == "ipu":
        from flota.cli.ipu import ipu_configuration

        line, own = ipu_configuration(line)
        rows |= {"gpus": "None", "ipus": str(len(spec.devices.chosen)), **own}
    rows |= {"training_script": str(line.script), "training_script_args": str(list(line.args))}
    rows |= {"worker_num": str(settings["trainer_num"]), "workers": str(settings["trainers"])}
    for dest, given in settings.given.items():
        overruled = dest == "legacy_local_rank" and not spec.legacy_local_rank  # by --use-env
        if dest not in rows and dest not in HIDDEN and not overruled:
            rows[dest] = format_value(dest, given.value)
    return tuple(rows.items())


def _print_error(error: FlotaError) -> None:
    red, plain = ("\033[31m", "\033[0m") if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    from flota.job.printable import escaped, printable_lines

    show = printable_lines if error.has_rows else escaped
    hint = f"\nhint: {show(error.hint)}\n" if error.hint else ""
    sys.stderr.write(f"{red}flota: error:{plain} {show(error.message)}\n{hint}")
