#!/usr/bin/env bash
# CrossNER, table 2: three training regimes (directly fine-tune; pre-train then fine-tune; jointly train), each without
# domain-adaptive pre-training and after it with token-level and with span-level masks.
# Source: Liu et al. (2021), table 2. Published and measured test F1: recipes/README.md
# Needs: CORPUS, raw text of the target domain; CROSSNER_MIRROR or a network for the data sets.
set -euo pipefail
TARGET=${TARGET:-ai}
SOURCE=${SOURCE:-conll2003}
CORPUS=${CORPUS:?give a text file or folder of the target domain, as CORPUS=ai_abstracts.txt}
CORPUS_LEVEL=${CORPUS_LEVEL:-domain}
ENCODER=${ENCODER:-minilm}
METHOD=${METHOD:-linear}
SEEDS=${SEEDS:-1,2,3}
ADAPTATIONS=${ADAPTATIONS:-none token span}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/table2-$TARGET}

crossner prepare-data --source "$SOURCE" --target "$TARGET" --corpus "$CORPUS" --corpus-level "$CORPUS_LEVEL"
models=()
for adaptation in $ADAPTATIONS; do
  start=base
  if [ "$adaptation" != none ]; then
    start=dapt-$adaptation
    crossner dapt --name "$start" --encoder "$ENCODER" --masking "$adaptation" --corpus-level "$CORPUS_LEVEL"
  fi
  train=(--method "$METHOD" --encoder "$ENCODER" --seeds "$SEEDS")
  crossner finetune "${train[@]}" --name "direct-$adaptation" --start-from "$start"
  crossner pretrain-source "${train[@]}" --name "source-$adaptation" --start-from "$start"
  crossner finetune "${train[@]}" --name "transfer-$adaptation" --start-from "source-$adaptation"
  crossner joint-train "${train[@]}" --name "joint-$adaptation" --start-from "$start"
  for regime in direct transfer joint; do models+=(--model "$regime-$adaptation"); done
done
crossner evaluate "${models[@]}"
