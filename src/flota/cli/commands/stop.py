"""`flota stop`: stops a running job on all its machines."""

from flota.cli.act_on_job import act_on_job

USAGE = """\
usage: flota stop [--job ID] [--at HOST:PORT] [--json]

Stop a running job on all its machines, as SIGTERM does: ranks that can save are
asked to save at the same step, and all others get SIGTERM and the grace period.
Without --job, it is the job of this directory, or the only one on this machine.

  --job ID         the job with this id, or with this pid
  --at HOST:PORT   the job whose node listens there, with FLOTA_TOKEN
  --json           print JSON
"""


def main(words: list[str]) -> int:
    return act_on_job(words, USAGE, "stop")
