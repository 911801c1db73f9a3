#!/usr/bin/env bash
# The whole chain on the bundled sample: news with four entity types -> astronomy with seven, of which 20 labelled
# sentences are given. No hub, no downloads. Compares a tagger fine-tuned on these 20 alone with one adapted to the
# domain's text and pre-trained on news. Two minutes on two cores with AVX2. Measured test F1: recipes/README.md
set -euo pipefail
export CROSSNER_RUN=${CROSSNER_RUN:-runs/quickstart}
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}

crossner prepare-data --source sample-source --target sample-target --train-limit 20 \
  --corpus sample-target --entities sample-target
crossner dapt --encoder "$ENCODER" --corpus-level integrated --epochs 1 --learning-rate 3e-5
crossner pretrain-source --start-from dapt
crossner finetune --start-from pretrain-source --epochs 8 --seeds "$SEEDS"
crossner finetune --name direct --encoder "$ENCODER" --epochs 8 --seeds "$SEEDS"
crossner evaluate --model direct --model finetune
echo "The probe Huygens landed on Titan in 2005, and Carolyn Porco of NASA saw the first images." |
  crossner predict - --model finetune --format conll
