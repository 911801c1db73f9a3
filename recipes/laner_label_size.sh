#!/usr/bin/env bash
# LANER by the size of its label embeddings, d2.
# Source: Hu et al. (2022), the label-size figure: ai, 10 to 1000. Measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; pip install 'crossner[plots]' for the figure.
# Differs: crossner's defaults, as in laner_tables.sh.
set -euo pipefail
TARGET=${TARGET:-ai}
SOURCE=${SOURCE:-conll2003}
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
SOURCE_SEEDS=${SOURCE_SEEDS:-$SEEDS}
SIZES=${SIZES:-10 50 100 150 200 500 1000}
REGIME=${REGIME:-transfer} # or direct: without the source
export CROSSNER_RUN=${CROSSNER_RUN:-runs/laner-label-size-$TARGET}

crossner prepare-data --source "$SOURCE" --target "$TARGET"
models=()
for size in $SIZES; do
  train=(--method laner --set label_size="$size" --encoder "$ENCODER")
  from=base
  if [ "$REGIME" = transfer ]; then
    from=source-$size
    crossner pretrain-source "${train[@]}" --seeds "$SOURCE_SEEDS" --name "$from"
  fi
  crossner finetune "${train[@]}" --seeds "$SEEDS" --name "$REGIME-$size" --start-from "$from"
  models+=(--model "$REGIME-$size")
done
crossner evaluate "${models[@]}"
crossner report --x label-size --output "$CROSSNER_RUN/report" --force
