"""Amazon SageMaker: SM_HOSTS lists the hosts as JSON. They are sorted as text, in the same order on all hosts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.reading import OWN_PORT, Variables, as_name

GRACE = 118.0  # SIGKILL follows after 120 s


def detect(environ: Mapping[str, str]) -> Hints:
    variables = Variables("SageMaker", environ)
    try:
        hosts = json.loads(environ["SM_HOSTS"])
    except ValueError:
        hosts = None
    if not (isinstance(hosts, list) and hosts and all(isinstance(host, str) and host for host in hosts)):
        raise variables.error("SM_HOSTS", "a JSON list of names")
    if environ["SM_CURRENT_HOST"] not in hosts:
        raise variables.error("SM_CURRENT_HOST", "one of SM_HOSTS")
    gpus, neurons = variables.optional("SM_NUM_GPUS"), variables.optional("SM_NUM_NEURONS")
    return Hints(
        *("SM_HOSTS", len(hosts), hosts.index(environ["SM_CURRENT_HOST"]), "SM_CURRENT_HOST"),
        master=endpoint(hosts[0], str(OWN_PORT)) if len(hosts) > 1 else "",
        workers=gpus or neurons,
        workers_source="SM_NUM_GPUS" if gpus else "SM_NUM_NEURONS",
        job_id=as_name(environ.get("TRAINING_JOB_NAME", "")),
        job_source="TRAINING_JOB_NAME",
        grace=GRACE,
    )
