from __future__ import annotations

import json

from flota.cli.print_json import print_json
from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodeStatus, RankStatus


def test_values_of_the_control_api_are_printed_with_their_fields(capsys):
    nodes = (NodeStatus("gpu01", 7, ranks=(RankStatus(0, numbers={"loss": None}),)),)

    print_json(JobAnswer(JobStatus(1, "default", "running"), nodes, (("gpu02", "no answer"),)))

    answer = json.loads(capsys.readouterr().out)
    assert (answer["job"]["state"], answer["nodes"][0]["host"]) == ("running", "gpu01")
    assert answer["nodes"][0]["ranks"][0]["numbers"] == {"loss": None}
    assert answer["missing"] == [["gpu02", "no answer"]]
