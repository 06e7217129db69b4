import pytest

from flota.dashboard.metrics import cause_of


@pytest.mark.parametrize(
    ("reason", "lost", "cause"),
    [
        ("rank 7 RuntimeError", [], "RuntimeError"),
        ("rank 12 SIGKILL", [], "SIGKILL"),
        ("server 3 exit code 1", [], "exit code"),
        ("node gpu02 lost", ["gpu02"], "node lost"),
        ("", [], "unknown"),
    ],
)
def test_a_cause_does_not_name_ranks_or_nodes(reason, lost, cause):
    assert cause_of({"reason": reason, "lost": lost}) == cause
