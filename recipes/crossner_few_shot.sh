#!/usr/bin/env bash
# Directly fine-tune beside pre-train then fine-tune by the number of target sentences.
# Source: Liu et al. (2021), the figure of target sentences: music. Measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; pip install 'crossner[plots]' for the figure.
# Differs: crossner's defaults, as in crossner_table2.sh; the paper's counts are 10, 25, 40, 55, 70, 85 and 100.
# An encoder adapted by dapt is taken up with ENCODER=RUN/dapt/encoder.
set -euo pipefail
TARGET=${TARGET:-music}
SOURCE=${SOURCE:-conll2003}
ENCODER=${ENCODER:-minilm}
METHOD=${METHOD:-linear}
SEEDS=${SEEDS:-1,2,3}
COUNTS=${COUNTS:-10 20 40 60 80 100}
REGIMES=${REGIMES:-direct transfer}
START=${START:-} # a tagger of the source that is there already, as RUN/source-none of crossner_table2.sh
RUNS=${RUNS:-runs/few-shot-$TARGET}

train=(--method "$METHOD" --encoder "$ENCODER" --seeds "$SEEDS")
if [[ $REGIMES == *transfer* && -z $START ]]; then
  crossner prepare-data --run "$RUNS/source" --source "$SOURCE" --target "$TARGET"
  crossner pretrain-source --run "$RUNS/source" "${train[@]}"
fi
runs=()
for count in $COUNTS; do
  export CROSSNER_RUN=$RUNS/$count
  crossner prepare-data --target "$TARGET" --train-limit "$count"
  models=()
  for regime in $REGIMES; do
    start=base
    if [ "$regime" = transfer ]; then start=${START:-$RUNS/source/pretrain-source}; fi
    crossner finetune "${train[@]}" --name "$regime" --start-from "$start"
    models+=(--model "$regime")
  done
  crossner evaluate "${models[@]}"
  runs+=("$CROSSNER_RUN")
done
crossner report "${runs[@]}" --x train-sentences --output "$RUNS/report" --force
