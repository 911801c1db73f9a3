#!/usr/bin/env bash
# LANER beside its ablation without labels by the number of target sentences.
# Source: Hu et al. (2022), the data-size figure: ai, 10 to 100 sentences. Measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; pip install 'crossner[plots]' for the figure.
# Differs: crossner's defaults, as in laner_tables.sh.
set -euo pipefail
TARGET=${TARGET:-ai}
SOURCE=${SOURCE:-conll2003}
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
SOURCE_SEEDS=${SOURCE_SEEDS:-$SEEDS}
COUNTS=${COUNTS:-10 20 40 60 80 100}
METHODS=${METHODS:-linear laner}
SOURCES=${SOURCES:-} # folder of a run that has the stages source-METHOD-none already, as that of laner_tables.sh
RUNS=${RUNS:-runs/laner-few-shot-$TARGET}

sources=$SOURCES
if [ -z "$sources" ]; then
  sources=$RUNS/source
  crossner prepare-data --run "$sources" --source "$SOURCE" --target "$TARGET"
  for method in $METHODS; do
    crossner pretrain-source --run "$sources" --method "$method" --encoder "$ENCODER" --seeds "$SOURCE_SEEDS" \
      --name "source-$method-none"
  done
fi
runs=()
for count in $COUNTS; do
  export CROSSNER_RUN=$RUNS/$count
  crossner prepare-data --target "$TARGET" --train-limit "$count"
  models=()
  sequences=() # of bartner, which writes entities instead of tags, there is nothing to decode otherwise
  for method in $METHODS; do
    crossner finetune --method "$method" --encoder "$ENCODER" --seeds "$SEEDS" --name "$method" \
      --start-from "$sources/source-$method-none"
    models+=(--model "$method")
    if [ "$method" != bartner ]; then sequences+=(--model "$method"); fi
  done
  crossner evaluate "${models[@]}" --name evaluate
  # As the papers decode: any sequence of tags.
  if [ ${#sequences[@]} -gt 0 ]; then crossner evaluate "${sequences[@]}" --decoding any --name evaluate-any; fi
  runs+=("$CROSSNER_RUN/evaluate")
done
crossner report "${runs[@]}" --x train-sentences --output "$RUNS/report" --force
