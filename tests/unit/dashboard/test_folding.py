from flota.dashboard.folding import LONGEST_LINE, MOST_LINES, clean_lines, fold


def texts(rows):
    return [(row["text"], row["ranks"]) for row in rows]


def test_a_line_of_all_ranks_is_there_once():
    assert texts(fold([("0", ["a", "b"]), ("1", ["a", "b"])])) == [("a", ["0", "1"]), ("b", ["0", "1"])]


def test_a_line_of_one_rank_comes_between_its_neighbours():
    rows = fold([("0", ["a", "b", "c"]), ("1", ["a", "warning", "b", "c", "ahead"])])

    assert [row["text"] for row in rows] == ["a", "warning", "b", "c", "ahead"]
    assert rows[1]["ranks"] == ["1"]


def test_a_line_that_a_rank_repeats_is_not_folded_with_itself():
    assert texts(fold([("0", ["a", "a"]), ("1", ["a"])])) == [("a", ["0"]), ("a", ["0", "1"])]


def test_rounds_follow_each_other_and_have_one_header():
    def log(rank):
        heads = [
            f"===== flota: job x, round {n}, attempt {n}, rank {rank} of 2, 2026-01-01 00:00:00 =====" for n in (0, 1)
        ]
        return [heads[0], "begins", f"fails {rank}", heads[1], "begins"]

    rows = texts(fold([("0", log(0)), ("1", log(1))]))

    assert rows[0] == ("===== flota: round 0 =====", ["0", "1"])
    assert {rows[2][0], rows[3][0]} == {"fails 0", "fails 1"}
    assert rows[4:] == [("===== flota: round 1 =====", ["0", "1"]), ("begins", ["0", "1"])]


def test_the_newest_lines_are_kept():
    rows = fold([("0", [str(number) for number in range(MOST_LINES + 10)])])

    assert (len(rows), rows[-1]["text"]) == (MOST_LINES, str(MOST_LINES + 9))


def test_lines_are_complete_and_of_limited_length():
    assert clean_lines(b"one\r\n10%\r20%\r30%\n" + b"x" * 9999 + b"\n\xff\nincompl") == [
        "one",
        "30%",
        "x" * LONGEST_LINE,
        "\ufffd",
    ]
