import pytest

from flota.control.device_use import mean_of, parse_nvidia, read_amd

TEXT = b"0, GPU-aa11, 35\n1, GPU-bb22, 90\n2, GPU-cc33, [N/A]\nNVIDIA-SMI has failed\n"


def test_devices_are_known_by_index_and_by_uuid():
    assert parse_nvidia(TEXT) == {"0": 35.0, "GPU-aa11": 35.0, "1": 90.0, "GPU-bb22": 90.0}
    assert parse_nvidia(b"\xff,,\n0, x, 101\n") == {}


@pytest.mark.parametrize(
    ("devices", "use"),
    [(("0",), 35.0), (("0", "1"), 62.5), (("GPU-bb",), 90.0), (("2",), None), (("2", "1"), 90.0), ((), None)],
)
def test_the_use_of_a_rank_is_the_mean_of_its_devices(devices, use):
    assert mean_of(devices, parse_nvidia(TEXT)) == use


def test_devices_of_amd_have_files(tmp_path):
    for card, text in (("card0", None), ("card1", "80\n"), ("card10", "5\n"), ("card1-DP-1", "9\n"), ("card2", "x")):
        folder = tmp_path / "sys/class/drm" / card / "device"
        folder.mkdir(parents=True)
        if text:
            (folder / "gpu_busy_percent").write_text(text)

    assert read_amd(f"{tmp_path}/") == {"0": 80.0, "1": 5.0}
    assert read_amd(f"{tmp_path}/none/") == {}
