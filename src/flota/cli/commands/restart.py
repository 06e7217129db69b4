"""`flota restart`: restarts the workers of a running job."""

from flota.cli.act_on_job import act_on_job

USAGE = """\
usage: flota restart [--job ID] [--at HOST:PORT] [--json]

Restart all workers of a running job, on all its machines. They get SIGTERM, and
SIGKILL after the grace period. This does not count for --max_restart. Without
--job, it is the job of this directory, or the only one on this machine.

  --job ID         the job with this id, or with this pid
  --at HOST:PORT   the job whose node listens there, with FLOTA_TOKEN
  --json           print JSON
"""


def main(words: list[str]) -> int:
    return act_on_job(words, USAGE, "restart")
