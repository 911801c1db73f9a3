#!/usr/bin/env bash
# Flair's language models of characters as a folder that --set string_embeddings= reads: safetensors and their characters.
# Source: Akbik, Blythe and Vollgraf (2018); the package flair finds, fetches and opens them.
# Needs: a network. The package is installed into an environment of its own, since it needs transformers 4; PYTHON names
# an interpreter that has it already. Its models come from the network too, unless they are files.
# Differs: the models' scores of the next character are left out. Flair's files are pickles, which can run what they
# like when they are opened: name none of a place that you do not trust.
set -euo pipefail
OUTPUT=${OUTPUT:-news-strings}
FORWARD=${FORWARD:-news-forward} # a name that flair knows, or a file
BACKWARD=${BACKWARD:-news-backward}
FLAIR=${FLAIR:-flair==0.15.1}
PYTHON=${PYTHON:-}

if [ -e "$OUTPUT" ]; then echo "$OUTPUT exists." >&2 && exit 2; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "$PYTHON" ]; then
  python3 -m venv "$folder/venv"
  PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install --quiet "$FLAIR"
fi
mkdir "$OUTPUT.part"
trap 'rm -rf "$folder" "$OUTPUT.part"' EXIT
"$PYTHON" - "$FORWARD" "$BACKWARD" "$OUTPUT.part" <<'PYTHON'
import json
import pathlib
import sys

from flair.embeddings import FlairEmbeddings
from safetensors.torch import save_file

*named, output = sys.argv[1:]
tensors, characters = {}, []
for side, name in zip(("forward", "backward"), named):
    model = FlairEmbeddings(name).lm
    if model.is_forward_lm != (side == "forward"):
        sys.exit(f"{name} does not read {side}.")
    read = {name: value for name, value in model.state_dict().items() if not name.startswith("decoder.")}
    tensors |= {f"{side}.{name}": value.contiguous().cpu() for name, value in read.items()}
    characters.append([item.decode() for item in model.dictionary.idx2item])
if characters[0] != characters[1]:
    sys.exit(f"{named[0]} and {named[1]} know other characters.")
save_file(tensors, pathlib.Path(output) / "strings.safetensors")
(pathlib.Path(output) / "strings.json").write_text(json.dumps(characters[0]), encoding="utf-8")
PYTHON
mv "$OUTPUT.part" "$OUTPUT"
echo "--set strings=frozen --set string_embeddings=$OUTPUT"
