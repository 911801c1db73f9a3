#!/usr/bin/env bash
# Proves and measures what a GPU changes; meant for nine minutes on one card. See README.md beside this file.
#   DEVICE=cpu bash benchmarks/gpu.sh   tries the script itself on a machine without a GPU, with a small encoder.
# Needs: PyTorch with CUDA, crossner with its extra dev, and CROSSNER_MIRROR for the data sets (else the samples).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
DEVICE=${DEVICE:-cuda}
ENCODER=${ENCODER:-minilm} # a real one, to compare F1
PYTHON=${PYTHON:-python3}  # of the installation
ROUNDS=${ROUNDS:-3}
PARTS=${PARTS:-prove finetune dapt predict kernels}
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

"$PYTHON" - "$DEVICE" <<'PYTHON'
import importlib.util, sys

packages = "torch transformers accelerate typer rich seqeval pandas pooch pytest hypothesis".split()
lacking = [name for name in packages if importlib.util.find_spec(name) is None]
if lacking:
    sys.exit(f"This Python lacks {', '.join(lacking)}: python3 -m pip install -e '.[dev]'")
import torch

if sys.argv[1] != "cpu" and not torch.cuda.is_available():
    sys.exit(f"PyTorch {torch.__version__} sees no GPU: install a build with CUDA, or try the script with DEVICE=cpu.")
PYTHON

wants() { [[ " $PARTS " == *" $1 "* ]]; }
told() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
real=(--learning-rate 5e-4 --sentences 1600 --epochs 2) big=(--sentences 1600 --epochs 1)
blocks=(--updates 20 --block-size 512 --batch-size 64)
layers=12 width=768
if [ "$DEVICE" = cpu ]; then
  real=(--sentences 40 --epochs 1) big=("${real[@]}") blocks=(--updates 2 --block-size 64 --batch-size 4) layers=2 width=64
fi
text=${CROSSNER_MIRROR:+$CROSSNER_MIRROR/corpora/ai_abstracts.txt}
base=$FOLDER/bert-base
"$PYTHON" benchmarks/random_encoder.py "$base" ${text:+"$text"} --layers "$layers" --width "$width"

if wants prove; then
  told "every method and command on $DEVICE"
  CROSSNER_TEST_DEVICE=$DEVICE "$PYTHON" -m pytest tests/end_to_end/test_gpu.py -p no:cacheprovider
fi
if wants finetune; then
  told "fine-tuning: F1 of a real encoder, then the speed of BERT-base's size"
  "$PYTHON" benchmarks/speed.py finetune --device "$DEVICE" --encoder "$ENCODER" --rounds "$ROUNDS" "${real[@]}"
  "$PYTHON" benchmarks/speed.py finetune --device "$DEVICE" --encoder "$base" --rounds "$ROUNDS" "${big[@]}"
fi
if wants dapt; then
  told "adaptation"
  "$PYTHON" benchmarks/speed.py dapt --device "$DEVICE" --encoder "$base" --rounds "$ROUNDS" "${blocks[@]}"
fi
if wants predict; then
  told "prediction"
  "$PYTHON" benchmarks/speed.py predict --device "$DEVICE" --encoder "$base" --rounds "$ROUNDS" "${big[@]}"
fi
if wants kernels; then
  told "kernels"
  "$PYTHON" benchmarks/profile_gpu.py --device "$DEVICE" --encoder "$base" "${blocks[@]}" --sentences 320 --epochs 1 --updates 4
fi
told "done"
