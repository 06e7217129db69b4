"""Lets a worker's interpreter run our `sitecustomize` before its script."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.host.process_start import ProcessSpec

SITE = os.path.join(os.path.dirname(__file__), "site")


def with_site(process: ProcessSpec, **variables: str) -> ProcessSpec:
    env = {**process.env, **variables}
    given = env.get("PYTHONPATH")
    if given is None or given.split(os.pathsep)[0] != SITE:
        if given is not None:
            env["FLOTA_PYTHONPATH"] = given
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (SITE, given)))
    return process._replace(env=env)
