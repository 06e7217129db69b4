"""Formats rows as a table. Pure."""


def table(rows: list[tuple[str, ...]], longest: int = 1000) -> list[str]:
    """Lines with aligned columns. After a cell that is longer than `longest`, the rest of its row is not aligned."""
    widths = [min(max(map(len, column)), longest) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
