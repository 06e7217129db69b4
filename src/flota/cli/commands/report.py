"""`flota report`: print where the time of a job went."""

import os

from flota.cli.command_options import ANY, read_command
from flota.cli.commands.why import expand
from flota.cli.print_json import print_json
from flota.cli.settings import find_log_dir
from flota.errors import CannotWrite, NoEvents
from flota.job.printable import printable
from flota.ledger.ledger import ledger_as_dict
from flota.ledger.ledger_text import ledger_in_words
from flota.ledger.read_logs import find_ledger

USAGE = """\
usage: flota report [--json] [--html FILE] [LOG_DIR …]

Print where the time of the last job in a log directory went: in steps, and in
everything else. LOG_DIR can be the directories of several nodes, a directory that
contains them, or the pattern that was given to --log_dir. The job may be running.

  --log_dir DIR   the same as LOG_DIR [log]
  --json          print the numbers of all ranks as JSON
  --html FILE     write the page of the finished job as one file
"""


def main(words: list[str]) -> int:
    options = read_command(words, USAGE, ("--log-dir", "--html"), ("--json",), most_words=ANY)
    if options is None:
        return 0
    file = options.given.get("--html", "")
    given = [(path, "flota report") for path in options.words]  # paths, each with its source
    given += [(options.given["--log-dir"], "--log_dir")] if "--log-dir" in options.given else []
    given = given or [find_log_dir(os.environ)]
    paths = [path for one in given for path in expand(*one)]
    found = find_ledger(paths)
    if found is None:
        raise NoEvents(given[0][0])
    if file:
        return _write_page(paths, file)
    job_id, ledger = found
    if options.json:
        print_json({"job_id": job_id, **ledger_as_dict(ledger)})
    else:
        print("\n".join(map(printable, ledger_in_words(job_id, ledger))))
    return 0


def _write_page(paths: list[str], file: str) -> int:
    from flota.dashboard.finished_job import FinishedJob
    from flota.dashboard.standalone import make_file
    from flota.dashboard.web_server import page_files

    text = make_file(page_files(), FinishedJob(paths).as_data())
    try:
        with open(file, "w", encoding="utf-8", newline="") as opened:
            opened.write(text)
    except OSError as error:
        raise CannotWrite(file, error.strerror or str(error)) from None
    print(f"wrote {printable(file)}")
    return 0
