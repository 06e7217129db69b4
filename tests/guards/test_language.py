"""Plain English in everything a person reads: documents, messages, docstrings, comments."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = {
    r"one (worker|process|line|page|screen|port|row) an? ": "one … per …",
    r"\bended well\b|\bends? well\b": "succeeded, finished successfully",
    r"\banew\b|\bonce more\b": "again; restart",
    r"\btold\b": "asked, sent, reported, printed: whichever it is",
    r"\b(end|ends|ended|exit|exits|exited) by (itself|themselves)\b": "exits on its own",
    r"\b(stand|stands|stood|standing) still\b|\bwhere (all |the )?ranks? stands?\b": "makes no progress; is stuck",
    r"\bsuffer(s|ed)?\b": "failed as a consequence",
    r"\bmakes? the others wait\b": "blocks the others",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bin vain\b": "without success",
    r"\bat the most\b": "at most",
    r"\b(whoever|nobody|somebody|anybody)\b": "name the actor: the user, the node, no rank",
    r"(?<!there )\bis no (?!longer\b|more\b|other\b)": "is not a",
    r",\s+too\b(?=[.,;:)]|\s*$)": "also, as well",
    r"\bmeetings?\b|\bnodes? (that )?meets?\b|\bdid not meet\b": "rendezvous; nodes join",
    r"\blast screen\b|\bfailure page\b": "the failure report",
    r"\bsaid once\b|\bsaid quietly\b|\bquiet note\b": "flota prints one note",
}
PATTERNS = {re.compile(pattern, re.IGNORECASE | re.MULTILINE): better for pattern, better in PHRASES.items()}
DOCUMENTS = ("*.md", "docs/**/*.md", "examples/**/*.md", "examples/**/*.py", "examples/**/*.ipynb", "src/**/*.py")


def readable_files() -> list[Path]:
    return sorted({path for pattern in DOCUMENTS for path in ROOT.glob(pattern)})


def prose_of(path: Path) -> list[tuple[int, str]]:
    """What a person reads in a file, with line numbers: strings and comments of programs, all of a document."""
    text = path.read_text()
    if path.suffix != ".py":
        return [(1, text)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]


def offences(text: str) -> list[tuple[int, str, str]]:
    """Line, words and what to write instead."""
    return [
        (text.count("\n", 0, match.start()), " ".join(match.group().split()), better)
        for pattern, better in PATTERNS.items()
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize("path", readable_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_person_reads_is_in_plain_english(path: Path) -> None:
    found = [
        f"{path}:{line + offset}: `{words}`: write {better}"
        for line, text in prose_of(path)
        for offset, words, better in offences(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "one worker a device",
        "all ended well",
        "only suffered",
        "in vain,",
        "whoever comes",
        "x is no y",
        "as well, too.",
    ],
)
def test_the_guard_finds_what_it_looks_for(text: str) -> None:
    assert offences(text)
