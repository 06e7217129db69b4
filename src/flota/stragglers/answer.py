"""How far ranks are: a node's answer for its own, and what can be read of workers from outside."""

from __future__ import annotations

from flota.host.channel import read_page
from flota.stragglers.question import RankStep, StepsAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.job.survey import Question

CHANNEL = b"FLOTA_CHANNEL="


def answer_steps(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    if not workers_gone:
        workers = [(node.started.plans[number].worker, number) for number in sorted(node.working())]
        beats = ((worker, node.channel.read(number)) for worker, number in workers)
        rows = (RankStep(worker.rank, beat.step, beat.seconds, worker.name) for worker, beat in beats)
        node.reply(question, StepsAnswer(tuple(rows)))


def step_of_process(role: str, rank: int, pid: int) -> RankStep:
    """Read from the page of memory that the worker shares with its node, which its environment names."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        variables = []
    path = next((one[len(CHANNEL) :] for one in variables if one.startswith(CHANNEL)), b"")
    beat = read_page(path.decode(errors="surrogateescape"))
    return RankStep(rank, beat.step, beat.seconds, role)
