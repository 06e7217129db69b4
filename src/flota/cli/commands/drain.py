"""`flota drain NODE`: lets one node leave a running job."""

from flota.cli.act_on_job import act_on_job

USAGE = """\
usage: flota drain NODE [--job ID] [--at HOST:PORT] [--json]

Let one node leave a running job. NODE is its number or its host name. The others
go on without it in an elastic job (--nnodes MIN:MAX), or wait for a node that
takes its place in a job with --max_restart.

  --job ID         the job with this id, or with this pid
  --at HOST:PORT   the job whose node listens there, with FLOTA_TOKEN
  --json           print JSON
"""


def main(words: list[str]) -> int:
    return act_on_job(words, USAGE, "leave", takes_node=True)
