#!/usr/bin/env bash
# The whole chain on the bundled sample: news with four entity types -> astronomy with seven. No hub, no downloads.
# Compares a tagger fine-tuned directly with one adapted to the domain's text and pre-trained on news. Ten minutes on
# two cores, five where they have bf16. Measured test F1: recipes/README.md
set -euo pipefail
export CROSSNER_RUN=${CROSSNER_RUN:-runs/quickstart}
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}

crossner prepare-data --source sample-source --target sample-target --corpus sample-target --entities sample-target
crossner dapt --encoder "$ENCODER" --masking span --corpus-level integrated --epochs 10 --learning-rate 3e-5
crossner pretrain-source --start-from dapt --epochs 4
crossner finetune --start-from pretrain-source --seeds "$SEEDS"
crossner finetune --name direct --encoder "$ENCODER" --seeds "$SEEDS"
crossner evaluate --model direct --model finetune
echo "The probe Huygens landed on Titan in 2005, and Carolyn Porco of NASA saw the first images." |
  crossner predict - --model finetune --format conll
