"""Files that are no text of UTF-8, told by their first bytes."""

from __future__ import annotations

from crossner_cli.errors import CrossNERError

# First bytes, what they are those of, and a command that makes UTF-8 of it.
OTHER_CONTENT = (
    (b"\x1f\x8b", "compressed by gzip", "gzip -dc FILE"),
    (b"BZh", "compressed by bzip2", "bzip2 -dc FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc FILE"),
    (b"\xfd7zXZ\x00", "compressed by xz", "xz -dc FILE"),
    (b"%PDF-", "a PDF", "pdftotext FILE -"),
    (b"PK\x03\x04", "a ZIP archive, as documents of Word are", "pandoc --to plain FILE"),
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
)
# Those that may begin with a line of UTF-8, and which no text begins with.
NEVER_TEXT = (b"%PDF-", b"PK\x03\x04")


def refuse_other_content(head: bytes, name: str) -> None:
    """Refuse a file of which no line can be read: to skip lines (``--skip-bad-lines``) would leave noise.

    Args:
        head: Its first bytes.
        name: What to call it in messages.

    Raises:
        CrossNERError: It is known to be something else.
    """
    for magic, what, command in OTHER_CONTENT:
        if head.startswith(magic):
            raise CrossNERError(
                f"{name}:1: the file is {what}, not UTF-8.", hint=f"Convert the file, as: {command} > CONVERTED"
            )
