"""Stores and certificates that several files use."""

from __future__ import annotations

import pytest

from tests.store.certificates import authority, sign
from tests.store.servers import Embedded, Etcd


@pytest.fixture(scope="module", params=[Embedded, Etcd], ids=["flota", "etcd"])
def store(request):
    server = request.param()
    yield server
    server.close()


@pytest.fixture
def master():
    server = Embedded()
    yield server
    server.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    authority(directory)
    sign(directory, "server")
    sign(directory, "client")
    return directory
