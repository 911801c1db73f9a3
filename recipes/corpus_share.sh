#!/usr/bin/env bash
# Domain-adaptive pre-training on shares of the raw corpus, each part of the next larger one.
# Source: Liu et al. (2021), the figure of corpus shares: music, integrated corpus.
# Needs: CORPUS, raw text of the target domain; CROSSNER_MIRROR or a network for the data sets;
# pip install 'crossner[plots]' for the figure. CORPUS_LEVEL=integrated needs ENTITIES, a list of names.
# Differs: crossner's defaults, as in crossner_table2.sh.
set -euo pipefail
TARGET=${TARGET:-music}
SOURCE=${SOURCE:-conll2003}
CORPUS=${CORPUS:?raw text of the target domain}
CORPUS_LEVEL=${CORPUS_LEVEL:-domain}
ENTITIES=${ENTITIES:-}
ENCODER=${ENCODER:-minilm}
METHOD=${METHOD:-linear}
SEEDS=${SEEDS:-1,2,3}
SHARES=${SHARES:-0 0.01 0.1 0.25 0.5 0.75 1}
REGIMES=${REGIMES:-direct transfer}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/corpus-share-$TARGET}

data=(--source "$SOURCE" --target "$TARGET" --corpus "$CORPUS")
if [ -n "$ENTITIES" ]; then data+=(--entities "$ENTITIES"); fi
train=(--method "$METHOD" --encoder "$ENCODER" --seeds "$SEEDS")

crossner prepare-data "${data[@]}"
models=()
for share in $SHARES; do
  start=base
  if [ "$share" != 0 ]; then
    start=dapt-$share
    crossner dapt --name "$start" --encoder "$ENCODER" --corpus-level "$CORPUS_LEVEL" --corpus-share "$share"
  fi
  for regime in $REGIMES; do
    from=$start
    if [ "$regime" = transfer ]; then
      from=source-$share
      crossner pretrain-source "${train[@]}" --name "$from" --start-from "$start"
    fi
    crossner finetune "${train[@]}" --name "$regime-$share" --start-from "$from"
    models+=(--model "$regime-$share")
  done
done
crossner evaluate "${models[@]}"
crossner report --x corpus-share --output "$CROSSNER_RUN/report" --force
