"""Stories as text: a line of words, a line of dashes, and what followed when the story was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

HERE = Path(__file__).parent


class Stage(Protocol):
    def play(self, line: str) -> str: ...


def stories_about(subject: str) -> list[Path]:
    return sorted((HERE / subject).glob("*.txt"))


def replay(stage: Stage, text: str) -> str:
    """The story with what happens now in place of what happened when it was recorded."""
    paragraphs: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        words = paragraph.split("\n----")[0]
        comments = [line for line in words.split("\n") if line.startswith("#")]
        (verb,) = [line for line in words.split("\n") if not line.startswith("#")]
        paragraphs.append("\n".join([*comments, verb, "----", stage.play(verb)]))
    return "\n\n".join(paragraphs) + "\n"


def check(story: Path, make_stage: type[Stage], *, rewrite: bool) -> None:
    if rewrite:
        story.write_text(replay(make_stage(), story.read_text()))

    assert replay(make_stage(), story.read_text()) == story.read_text()
