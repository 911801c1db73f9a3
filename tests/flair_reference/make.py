"""Writes the other files of this folder: what the flair package itself makes of sentences, by random language models.

Run where flair is installed (0.15.1 made what is here), which crossner's environment cannot be, as flair needs
transformers below 5:

    python tests/flair_reference/make.py

The language models are stored as flair stores them, and written as safetensors by the lines of README.md.
"""

import json
import os
import re
import tempfile
from pathlib import Path

import torch
from flair.data import Dictionary, Sentence
from flair.embeddings import FlairEmbeddings
from flair.models import LanguageModel

HERE = Path(__file__).resolve().parent
README = HERE.parent.parent / "README.md"
CHARACTERS = "\n abcdehinorst.-"
# Unknown characters, a word alone, one of many characters, and sentences of other lengths beside each other.
SENTENCES = [["ann", "sees", "the", "Ärzte", "in", "bonn", "."], ["a"], ["ten-tonne", "bands", "broadcast-" * 4, "."]]


def main() -> None:
    """Make the models, run README's lines over them, and store flair's vectors."""
    torch.manual_seed(1)
    dictionary = Dictionary(add_unk=True)
    for character in CHARACTERS:
        dictionary.add_item(character)
    lines = next(code for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "flair" in code)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for side, size in (("forward", 6), ("backward", 5)):
            LanguageModel(dictionary, side == "forward", hidden_size=size, nlayers=1, embedding_size=4).save(
                f"random-{side}.pt"
            )
        exec(lines.replace("news-{side}", "random-{side}.pt"), {})
        vectors = {}
        for side in ("forward", "backward"):
            sentences = [Sentence(words) for words in SENTENCES]
            FlairEmbeddings(f"random-{side}.pt").embed(sentences)
            vectors[side] = [[word.get_embedding().tolist() for word in sentence] for sentence in sentences]
        for name in ("strings.safetensors", "strings.json"):
            (HERE / name).write_bytes((Path("news-strings") / name).read_bytes())
    record = {"sentences": SENTENCES, **vectors}
    (HERE / "vectors.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
