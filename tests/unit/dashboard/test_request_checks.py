import pytest

from flota.dashboard.request_checks import POLICY, is_own_host, is_same_origin, read_cookie

NAMES = frozenset({"localhost", "gpu01"})


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "127.0.0.1", "[::1]:8080", "localhost:9", "GPU01:80", "10.0.0.5:1"])
def test_addresses_and_own_names_are_answered(host):
    assert is_own_host(host, NAMES)


@pytest.mark.parametrize("host", ["", "evil.example:8080", "gpu01.evil.example", "127.0.0.1.evil.example", "[evil]:80"])
def test_a_name_that_an_attacker_can_choose_is_not(host):
    assert not is_own_host(host, NAMES)


def test_only_the_own_page_is_of_the_same_origin():
    assert is_same_origin("http://127.0.0.1:8080", "127.0.0.1:8080")
    assert not is_same_origin("http://127.0.0.1:9090", "127.0.0.1:8080")
    assert not is_same_origin("http://evil.example", "127.0.0.1:8080")
    assert not is_same_origin("null", "127.0.0.1:8080")
    assert not is_same_origin("", "127.0.0.1:8080")
    assert not is_same_origin("http://", "")


def test_a_cookie_is_found_among_others():
    assert read_cookie("a=1; flota-ab=secret; b=2", "flota-ab") == "secret"
    assert read_cookie("xflota-ab=secret", "flota-ab") == ""
    assert read_cookie("", "flota-ab") == ""


def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline():
    assert "default-src 'none'" in POLICY and "unsafe" not in POLICY and "http" not in POLICY
