"""Lines and tables as Markdown, and the names of models in them."""

from crossner_cli.reports.blocks import Line, Table, short_names, to_markdown


def test_markdown_keeps_tables_whole_whatever_names_hold() -> None:
    table = Table("a_b", ("model", "F1"), [("x|y\nz", "1.00")])
    assert to_markdown([Line("<b>", True), table], level=3) == (
        "**\\<b\\>**\n\n### a\\_b\n\n| model | F1 |\n| --- | ---: |\n| x\\|y z | 1.00 |\n"
    )


def test_a_path_is_called_by_the_shortest_end_that_no_other_has() -> None:
    labels = ["direct", "run/one/direct", "a/way/two/other", "b/two/other"]
    assert list(short_names(labels).values()) == ["direct", "one/direct", "way/two/other", "b/two/other"]
