#!/usr/bin/env bash
# CrossNER, table 2: three training regimes (directly fine-tune; pre-train then fine-tune; jointly train), each without
# domain-adaptive pre-training and after it with token-level and with span-level masks.
# Source: Liu et al. (2021), table 2. Published and measured test F1: recipes/README.md
# Needs: CORPUS, raw text of the target domain, unless ADAPTATIONS=none; CROSSNER_MIRROR or a network for the data sets.
# CORPUS_LEVEL=integrated, as the published rows of span-level masks, needs ENTITIES, a list of names.
# Differs: settings are crossner's defaults: DAPT of 5 epochs at 1e-4 in batches of 32 blocks of 128 (the paper's: 15,
# 5e-5, 8 of 512), 15 epochs of fine-tuning and 2 of joint training (up to 300, patience 8), and the best epoch of the
# source, not its last; --paper of each command has the published ones.
set -euo pipefail
TARGET=${TARGET:-ai}
SOURCE=${SOURCE:-conll2003}
CORPUS=${CORPUS:-}
CORPUS_LEVEL=${CORPUS_LEVEL:-domain}
ENTITIES=${ENTITIES:-}
ENCODER=${ENCODER:-minilm}
METHOD=${METHOD:-linear}
SEEDS=${SEEDS:-1,2,3}
SOURCE_SEEDS=${SOURCE_SEEDS:-$SEEDS}
# Folder of a run that has the stages source-ADAPTATION already, as that of another target (without adaptation).
SOURCES=${SOURCES:-}
ADAPTATIONS=${ADAPTATIONS:-none token span}
ADAPTATION_RATE=${ADAPTATION_RATE:-1e-4}
ADAPTATION_EPOCHS=${ADAPTATION_EPOCHS:-5}
REGIMES=${REGIMES:-direct transfer joint}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/table2-$TARGET}

data=(--source "$SOURCE" --target "$TARGET")
if [ -n "$CORPUS" ]; then data+=(--corpus "$CORPUS" --corpus-level "$CORPUS_LEVEL"); fi
if [ -n "$ENTITIES" ]; then data+=(--entities "$ENTITIES"); fi
all=(--method "$METHOD" --encoder "$ENCODER")
train=("${all[@]}" --seeds "$SEEDS")

crossner prepare-data "${data[@]}"
models=()
for adaptation in $ADAPTATIONS; do
  start=base
  if [ "$adaptation" != none ]; then
    start=dapt-$adaptation
    crossner dapt --name "$start" --encoder "$ENCODER" --masking "$adaptation" --corpus-level "$CORPUS_LEVEL" \
      --learning-rate "$ADAPTATION_RATE" --epochs "$ADAPTATION_EPOCHS"
  fi
  for regime in $REGIMES; do
    model=$regime-$adaptation
    case $regime in
      direct) crossner finetune "${train[@]}" --name "$model" --start-from "$start" ;;
      transfer)
        source=source-$adaptation
        if [ -n "$SOURCES" ]; then
          source=$SOURCES/$source
        else
          crossner pretrain-source "${all[@]}" --seeds "$SOURCE_SEEDS" --name "$source" --start-from "$start"
        fi
        crossner finetune "${train[@]}" --name "$model" --start-from "$source"
        ;;
      joint) crossner joint-train "${train[@]}" --name "$model" --start-from "$start" ;;
    esac
    models+=(--model "$model")
  done
done
crossner evaluate "${models[@]}"
