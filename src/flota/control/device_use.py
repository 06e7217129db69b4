"""How busy the accelerators of this machine are, where the driver tells.

The driver is asked only while a viewer asks this node, and at most every few seconds. What it said last is shown.
"""

from __future__ import annotations

import os
import time

from flota.host.bounded_command import BoundedCommand, CommandEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch

INTERVAL, PAUSE = 5.0, 60.0  # seconds between questions: usually, and after one without an answer
FRESH = 20.0  # seconds for which an answer counts
TIME_LIMIT = 5.0  # seconds
NVIDIA = ("--query-gpu=index,uuid,utilization.gpu", "--format=csv,noheader,nounits")
AMD_VARIABLES = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class DeviceUse:
    """Call `on_time` at the `deadline`."""

    def __init__(self, node: NodeWatch, root: str = "/") -> None:
        self._node, self._root = node, root
        self._known: dict[str, float] = {}
        self._known_at = self._ask_at = 0.0
        self._command: BoundedCommand | None = None

    @property
    def deadline(self) -> float | None:
        return self._command.deadline if self._command else None

    def on_time(self, now: float) -> None:
        if self._command:
            self._command.on_time(now)

    def of(self, devices: tuple[str, ...]) -> float | None:
        """The mean of these devices, in percent; None if it is unknown."""
        now = time.monotonic()
        if now >= self._ask_at and self._command is None:
            self._ask_at = now + INTERVAL
            self._ask(now)
        return mean_of(devices, self._known) if now - self._known_at < FRESH else None

    def _ask(self, now: float) -> None:
        variable = self._node.spec.devices.variable
        if variable in AMD_VARIABLES:
            self._note(read_amd(self._root), now)
        elif variable == "CUDA_VISIBLE_DEVICES":
            self._ask_nvidia(now)
        else:
            self._ask_at = float("inf")

    def _ask_nvidia(self, now: float) -> None:
        from shutil import which

        program = which("nvidia-smi", path=self._node.environ.get("PATH"))
        try:
            if program:
                argv, env = (program, *NVIDIA), dict(self._node.environ)
                self._command = BoundedCommand(argv, env, b"", TIME_LIMIT, self._node.loop, self._on_answer)
                return
        except OSError:
            pass
        self._ask_at = now + PAUSE

    def _on_answer(self, end: CommandEnd) -> None:
        self._command = None
        self._note(parse_nvidia(end.output) if end.code == 0 else {}, time.monotonic())

    def _note(self, known: dict[str, float], now: float) -> None:
        if known:
            self._known, self._known_at = known, now
        else:
            self._ask_at = now + PAUSE


def parse_nvidia(text: bytes) -> dict[str, float]:
    """Percent by index and by UUID. A device that cannot tell, such as a part of one, has no number."""
    known: dict[str, float] = {}
    for line in text.decode(errors="replace").splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and fields[2].isdecimal() and int(fields[2]) <= 100:
            known |= {fields[0]: float(fields[2]), fields[1]: float(fields[2])}
    return known


def read_amd(root: str) -> dict[str, float]:
    """Percent by index, from files of the kernel."""
    folder = f"{root}sys/class/drm"
    try:
        cards = sorted((name for name in os.listdir(folder) if name[4:].isdecimal()), key=lambda name: int(name[4:]))
    except OSError:
        return {}
    found = []
    for card in cards:
        try:
            with open(f"{folder}/{card}/device/gpu_busy_percent") as file:
                found.append(float(file.read(16)))
        except (OSError, ValueError):
            continue  # not a device of AMD
    return {str(number): percent for number, percent in enumerate(found)}


def mean_of(devices: tuple[str, ...], known: dict[str, float]) -> float | None:
    numbers = [percent for one in devices if (percent := _find(one, known)) is not None]
    return round(sum(numbers) / len(numbers), 1) if numbers else None


def _find(device: str, known: dict[str, float]) -> float | None:
    """CUDA accepts the beginning of a UUID."""
    if device.isdecimal():
        return known.get(device)
    return next((percent for name, percent in known.items() if name.startswith(device)), None)
