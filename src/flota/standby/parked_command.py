"""The command of a parked interpreter: a worker's own, but with our `sitecustomize`, which Python imports before
it runs the script."""

from __future__ import annotations

import os

from flota.host.process_start import ProcessSpec

SITE = os.path.join(os.path.dirname(__file__), "site")


def parked_command(spawn: ProcessSpec, link: int) -> ProcessSpec:
    """`link` is the interpreter's end of the socket pair. What imports print goes to memfds: every worker prints it."""
    out = err = os.memfd_create("flota", os.MFD_CLOEXEC)
    if spawn.stdout != spawn.stderr:
        err = os.memfd_create("flota", os.MFD_CLOEXEC)
    return _with_site(spawn._replace(stdout=out, stderr=err, inherited_fds=(link,)), FLOTA_PARK=str(link))


def close_output(command: ProcessSpec) -> None:
    for fd in {command.stdout, command.stderr}:
        assert isinstance(fd, int)
        os.close(fd)


def recording_commands(spawns: list[ProcessSpec]) -> list[ProcessSpec]:
    """Cold workers, of which the first records what it imports."""
    return [_with_site(spawns[0], FLOTA_RECORD="1"), *spawns[1:]]


def _with_site(spawn: ProcessSpec, **variables: str) -> ProcessSpec:
    env = {**spawn.env, **variables}
    if "PYTHONPATH" in env:
        env["FLOTA_PYTHONPATH"] = env["PYTHONPATH"]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (SITE, env.get("PYTHONPATH"))))
    return spawn._replace(env=env)
