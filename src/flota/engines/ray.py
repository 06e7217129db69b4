"""Ray: a job is a placement group with one actor per node. The actors, and so the job, end with this process."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from typing import Any

from flota import errors
from flota.engines import EngineJob, Option
from flota.engines.interrupts import Interrupts
from flota.engines.tools import last_line, say
from flota.errors import TRY_AGAIN
from flota.errors.engines import MissingRay, NoRayCluster, NoRoom, RayFailed
from flota.job.roster import endpoint
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flota.engines import Options

ANSWER = 10.0  # seconds for a cluster's port to answer
CONNECT, UPLOAD = 30, 600  # seconds for the cluster to answer, and with --working_dir; Ray itself tries for minutes
START = 300.0  # seconds for actors to start: with --working_dir they first fetch the files
ROOM = 5.0  # seconds between two looks whether the cluster has room
POLL = 0.2  # seconds between two looks at Ctrl-C
MISSED = 10.0  # seconds until a node that exited early is reported: usually all nodes exit together
KILLED = 10.0  # seconds for nodes that were killed to be gone
LONGEST_LINE = 1 << 16  # bytes that are kept until a line ends
HELD = 1 << 14  # bytes of the messages of nodes other than node 0, which are shown only if they are needed
STOPPED = 143  # a node's exit code after SIGTERM

OPTIONS = (
    Option("follow", "switch", "no effect: the output is always shown, because the job ends with this command"),
    Option("gpus", "count", "GPUs of each node [0]", "N", 0),
    Option("cpus", "positive", "CPUs of each node [1]", "N", 1),
    Option("resource", "env", "any other resource of each node, as in --resource NPU=8; can be repeated", "K=N", ()),
    Option("pack", "switch", "allow several nodes on one host [one per host]"),
    Option("address", "text", "the cluster: HOST:PORT or ray://HOST:PORT [RAY_ADDRESS, or this host's]", "ADDR"),
    Option("working-dir", "text", "a directory that Ray copies to all hosts [a shared file system is assumed]", "DIR"),
    Option("wait", "duration", "give up if the cluster has no room after this time [10m]", "TIME", 600.0),
)


class RayPlan(NamedTuple):
    """What `flota submit ray` creates: a placement group, and in each of its bundles a node."""

    job: EngineJob
    bundle: dict[str, int]
    strategy: str
    directory: str  # empty: Ray's copy
    working_dir: str
    address: str
    wait: float

    @property
    def text(self) -> str:
        where = f"Ray's copy of {self.working_dir}" if self.working_dir else self.directory
        count = f"{self.job.least} to {self.job.started}" if self.job.elastic else str(self.job.started)
        resources = ", ".join(f"{name}: {amount}" for name, amount in self.bundle.items())
        command = ["python", "-m", "flota"]
        lines = [
            f"# a placement group of {count} bundles, which ends with this command",
            f"strategy: {self.strategy}",
            f"bundle: {{{resources}}}",
            f"# in each bundle an actor that runs one node, in {where}: first node 0, then the others",
            *(
                shlex.join([*command, *node_words(self, "HOST_0:PORT", index)])
                for index in range(min(self.job.started, 2))
            ),
        ]
        return "\n".join([*lines, ""])


def observe(job: EngineJob, options: Options) -> Options:  # noqa: ARG001  it is the same for all jobs
    return {**options, "follow": True}


def plan(job: EngineJob, options: Options) -> RayPlan:
    bundle: dict[str, int] = {"CPU": options["cpus"], **({"GPU": options["gpus"]} if options["gpus"] else {})}
    for name, word in options["resource"]:
        if not word.isdecimal() or name in ("CPU", "GPU"):
            raise errors.BadValue("--resource", f"{name}={word}", "a resource and its amount", "--resource NPU=8")
        bundle[name] = int(word)
    return RayPlan(
        job=job,
        bundle=bundle,
        strategy="PACK" if options["pack"] else "STRICT_SPREAD",
        directory="" if options["working_dir"] else job.directory,
        working_dir=options["working_dir"] or "",
        address=options["address"] or "",
        wait=options["wait"],
    )


def node_words(planned: RayPlan, master: str, index: int) -> list[str]:
    """flota's arguments for one node. Node 0 serves the master, also if another node is on the same host."""
    job, serves = planned.job, "true" if index == 0 else "false"
    where = [f"--master={master}", f"--rdzv_conf=is_host={serves}"] if job.started > 1 else []
    return [f"--nnodes={job.nodes}", *where, *job.words]


def count_places(nodes: Iterable[Mapping[str, Any]], bundle: Mapping[str, int], *, pack: bool) -> int:
    """How many bundles fit into the cluster while it is idle. `nodes`: as ray.nodes() returns them."""
    places = [
        min(int(node["Resources"].get(name, 0) // amount) for name, amount in bundle.items())
        for node in nodes
        if node["Alive"]
    ]
    return sum(places if pack else (min(place, 1) for place in places))


def describe_wait(planned: RayPlan, places: int, total: Mapping[str, float], free: Mapping[str, float]) -> str:
    each = " and ".join(f"{amount} {name}" for name, amount in planned.bundle.items())
    left = " and ".join(f"{free.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in planned.bundle)
    least = planned.job.least_started
    return f"waiting for {least} nodes with {each} each; the cluster has places for {places}; {left} free"


class RayJob:
    """A job whose nodes run in Ray's actors."""

    def __init__(self, ray: Any, group: Any, actors: list[Any], hosts: list[str], *, elastic: bool) -> None:
        self.ray = ray
        self.group = group
        self.actors = actors
        self.hosts = hosts
        self.elastic = elastic
        self.codes: dict[int, int] = {}
        self.lost: set[int] = set()
        self.stopping = False
        self.gives_up = float("inf")

    def stop(self) -> None:
        """Ask all nodes to stop: workers save. Removing the group would not wait for them."""
        self.stopping = True
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self.gives_up = time.monotonic() + KILLED
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        for index, actor in enumerate(self.actors):
            if index not in self.codes and index not in self.lost:
                actor.send.remote(number)

    @property
    def code(self) -> int:
        """Node 0's, or that of the first node that is left. All nodes of a job exit with the same code."""
        code = self.codes[min(self.codes)] if self.codes else TRY_AGAIN
        return TRY_AGAIN if self.lost and code == STOPPED and not self.stopping else code


def start(planned: RayPlan, environ: Mapping[str, str]) -> RayJob:
    ray = _connect(planned, environ)
    try:
        group, count = _reserve(ray, planned)
        actors = [_make_actor(ray, planned, group, index) for index in range(count)]
        found = ray.get([actor.find_address.remote() for actor in actors], timeout=START)
        host, port = found[0]
        master = endpoint(host, str(port))
        answers = ray.get(
            [
                actor.run.remote(node_words(planned, master, index), planned.directory, planned.job.token)
                for index, actor in enumerate(actors)
            ],
            timeout=START,
        )
    except ray.exceptions.RayError as error:
        raise RayFailed(last_line(str(error))) from None
    for answer in filter(None, answers):
        raise RayFailed(answer, "use --working_dir . to have Ray copy this directory to all hosts")
    hosts = [host for host, _ in found]
    say(f"started {count} node{'s' * (count > 1)} on Ray: {', '.join(hosts)}")
    return RayJob(ray, group, actors, hosts, elastic=planned.job.elastic)


def _connect(planned: RayPlan, environ: Mapping[str, str]) -> Any:
    """Connect to a cluster that exists."""
    import socket

    try:
        import ray
    except ModuleNotFoundError:
        raise MissingRay from None
    address = planned.address or environ.get("RAY_ADDRESS", "") or "auto"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    runtime_env = {"working_dir": planned.working_dir} if planned.working_dir else None
    signal.signal(signal.SIGALRM, _raise_late)
    limit = UPLOAD if planned.working_dir else CONNECT
    signal.alarm(limit)
    try:
        if port.isdecimal() and "://" not in host:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", runtime_env=runtime_env)
    except (OSError, RuntimeError, ValueError) as error:  # Ray's ConnectionError is an OSError
        raise NoRayCluster(address, last_line(str(error))) from None
    except _Late:
        raise NoRayCluster(address, f"no answer within {limit} s") from None
    finally:
        signal.alarm(0)
    return ray


class _Late(BaseException):
    """Not an Exception: Ray would catch it, and try again."""


def _raise_late(*_: object) -> None:
    raise _Late


def _reserve(ray: Any, planned: RayPlan) -> tuple[Any, int]:
    """Wait until the cluster has room. A job of MIN:MAX nodes takes as many as there are."""
    pack = planned.strategy == "PACK"
    count, least = planned.job.started, planned.job.least_started
    if planned.job.elastic:
        count = max(least, min(count, count_places(ray.nodes(), planned.bundle, pack=pack)))
    while True:
        group = ray.util.placement_group([planned.bundle] * count, planned.strategy, f"flota-{planned.job.name}")
        if group.wait(min(ROOM, planned.wait)):
            return group, count
        if count == least:
            break
        ray.util.remove_placement_group(group)
        count -= 1
    deadline = time.monotonic() + planned.wait - ROOM
    shown = ""
    while True:
        places = count_places(ray.nodes(), planned.bundle, pack=pack)
        line = describe_wait(planned, places, ray.cluster_resources(), ray.available_resources())
        left = deadline - time.monotonic()
        if left <= 0:
            ray.util.remove_placement_group(group)
            raise NoRoom(line.removeprefix("waiting for "), f"{planned.wait:g}")
        if line != shown:
            say(line)
            shown = line
        if group.wait(min(ROOM, left)):
            return group, count


def _make_actor(ray: Any, planned: RayPlan, group: Any, index: int) -> Any:
    from flota.engines.ray_actor import NodeActor

    resources = dict(planned.bundle)
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, index)
    actor = ray.remote(NodeActor).options(
        num_cpus=resources.pop("CPU"),
        num_gpus=resources.pop("GPU", 0),
        resources=resources,
        scheduling_strategy=strategy,
        max_concurrency=4,
    )
    return actor.remote()


def follow(job: RayJob) -> int:
    """Show node 0's output and the other nodes' worker output until all nodes have ended."""
    interrupts = Interrupts(job, "the job on Ray", can_detach=False)
    output = NodeOutput()
    missed: dict[int, float] = {}
    ray = job.ray
    reads = {actor.read.remote(): index for index, actor in enumerate(job.actors)}
    while reads and time.monotonic() < job.gives_up:
        for ref in ray.wait(list(reads), timeout=POLL)[0]:
            index = reads.pop(ref)
            try:
                chunks, code = ray.get(ref)
            except ray.exceptions.ActorUnavailableError:
                chunks, code = [], None  # Ray decides within seconds whether the actor is lost
                time.sleep(POLL)
            except ray.exceptions.RayError as error:
                why = last_line(str(error)).partition(". ")[0]  # Ray's advice follows
                say(f"node {index} on {job.hosts[index]} is lost: {why}")
                job.lost.add(index)
                output.end(index)
                continue
            output.show(index, chunks)
            if code is None:
                reads[job.actors[index].read.remote()] = index
            else:
                output.end(index)
                job.codes[index] = code
                missed[index] = time.monotonic() + MISSED
        interrupts.detaches()
        _report_missed(job, output, missed)
    for index in reads.values():
        output.end(index)
    if 0 in job.lost and job.codes:
        output.show_held(min(job.codes))
    code = job.code
    ray.util.remove_placement_group(job.group)
    ray.shutdown()
    return code


def _report_missed(job: RayJob, output: NodeOutput, missed: dict[int, float]) -> None:
    """A node that could not begin, as on a host without the script: the others would wait for it for long."""
    if 0 in job.codes or job.stopping:
        return
    for index in [index for index, when in missed.items() if when < time.monotonic()]:
        del missed[index]
        if job.codes[index] not in (0, TRY_AGAIN, STOPPED):
            say(f"node {index} on {job.hosts[index]} exited with {job.codes[index]}")
            output.show_held(index)
            if not job.elastic:
                job.stop()


class NodeOutput:
    """What the nodes print, in whole lines: those of several nodes must not mix. Messages are those of node 0: all
    nodes have the same, such as the failure report."""

    def __init__(self) -> None:
        self._held: dict[int, bytes] = {}
        self._begun: dict[tuple[int, int], bytes] = {}  # lines without an end, by node and stream

    def show(self, index: int, chunks: list[tuple[int, bytes]]) -> None:
        for number, data in chunks:
            if number == 1 or index == 0:
                text = self._begun.pop((index, number), b"") + data
                end = max(text.rfind(b"\n"), text.rfind(b"\r"), len(text) - LONGEST_LINE - 1) + 1
                self._write(sys.stdout if number == 1 else sys.stderr, text[:end])
                self._begun[index, number] = text[end:]
            else:
                self._held[index] = (self._held.get(index, b"") + data)[-HELD:]

    def end(self, index: int) -> None:
        """The node prints no more."""
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            self._write(stream, self._begun.pop((index, number), b""))

    def show_held(self, index: int) -> None:
        self._write(sys.stderr, self._held.pop(index, b""))

    def _write(self, stream: Any, data: bytes) -> None:
        try:
            stream.buffer.write(data)
            stream.flush()
        except OSError:
            pass  # a closed stdout does not end the job
