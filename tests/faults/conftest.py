"""The hosts of the network lab, as in tests/netns."""

from tests.netns.conftest import job, shared, shared_session  # noqa: F401
