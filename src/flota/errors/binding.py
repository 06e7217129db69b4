"""Errors of --bind."""

from __future__ import annotations

from flota.errors import TemplateError


class NoTopology(TemplateError[str]):
    message = "--bind {0} needs Linux: /proc/self/status does not list the CPUs that flota may use"
    hint = "use --bind none"


class NoCpus(TemplateError[str, int, str, str]):
    message = (
        "--bind {0} leaves worker {1} without CPUs: its device is on NUMA node {2}, but flota may use only CPUs {3}"
    )
    hint = "allow flota to use CPUs of that node (`taskset`, the container's cpuset), or use --bind none"


class TooFewCores(TemplateError[int, int, int]):
    message = "--bind core needs a core for each worker: there are {0} for {2} workers on NUMA node {1}"
    hint = "use --bind numa, or start fewer workers"
