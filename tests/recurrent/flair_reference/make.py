"""Writes the other files of this folder: what the flair package itself makes of sentences, by random language models.

Run in an environment that has the package flair (0.15.1 made what is here):

    python tests/recurrent/flair_reference/make.py [FOLDER]

The language models are stored as flair stores them, and written as safetensors by recipes/flair_strings.sh.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from flair.data import Dictionary, Sentence
from flair.embeddings import FlairEmbeddings
from flair.models import LanguageModel

HERE = Path(__file__).resolve().parent
WRITTEN = Path(sys.argv[1]).resolve() if sys.argv[1:] else HERE
RECIPE = HERE.parents[2] / "recipes" / "flair_strings.sh"
CHARACTERS = "\n abcdehinorst.-"
# Unknown characters, a word alone, one of many characters, and sentences of other lengths beside each other.
SENTENCES = [["ann", "sees", "the", "Ärzte", "in", "bonn", "."], ["a"], ["ten-tonne", "bands", "broadcast-" * 4, "."]]


def main() -> None:
    """Make the models, run the recipe over them, and store flair's vectors."""
    torch.manual_seed(1)
    dictionary = Dictionary(add_unk=True)
    for character in CHARACTERS:
        dictionary.add_item(character)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for side, size in (("forward", 6), ("backward", 5)):
            LanguageModel(dictionary, side == "forward", hidden_size=size, nlayers=1, embedding_size=4).save(
                f"random-{side}.pt"
            )
        given = {"PYTHON": sys.executable, "FORWARD": "random-forward.pt", "BACKWARD": "random-backward.pt"}
        subprocess.run(["bash", str(RECIPE)], env=os.environ | given, check=True)
        vectors = {}
        for side in ("forward", "backward"):
            sentences = [Sentence(words) for words in SENTENCES]
            FlairEmbeddings(f"random-{side}.pt").embed(sentences)
            vectors[side] = [[word.get_embedding().tolist() for word in sentence] for sentence in sentences]
        for name in ("strings.safetensors", "strings.json"):
            (WRITTEN / name).write_bytes((Path("news-strings") / name).read_bytes())
    record = {"sentences": SENTENCES, **vectors}
    (WRITTEN / "vectors.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
