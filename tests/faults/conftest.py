"""The hosts of the network lab, as in tests/netns."""

from tests.netns.conftest import job, streets, town  # noqa: F401
