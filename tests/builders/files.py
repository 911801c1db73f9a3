"""Files of words with tags, and of names with types."""

from pathlib import Path


def write_pair(tmp_path: Path, gold: str, predictions: str, endings=("conll", "conll")) -> tuple[Path, Path]:
    paths = tmp_path / f"gold.{endings[0]}", tmp_path / f"predictions.{endings[1]}"
    for path, text in zip(paths, (gold, predictions), strict=True):
        path.write_text(text)
    return paths


def tag_columns(*sentences: str) -> str:
    """Columns with the words w0, w1, … and the tags given."""
    return "\n".join("".join(f"w{place}\t{tag}\n" for place, tag in enumerate(tags.split())) for tags in sentences)


def write_names(folder: Path, *lines: str) -> Path:
    """A file of names, each line a name with its type."""
    path = folder / "names.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
