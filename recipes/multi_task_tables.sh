#!/usr/bin/env bash
# Recurrent taggers of two labelled domains: one BiLSTM, generated BiLSTMs with language models, and the multi-cell LSTM.
# Source: Jia, Liang and Zhang (2019), table 3; Jia and Zhang (2020), tables 2 and 5. Published F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets. EMBEDDINGS: a file of static vectors (GloVe 100, or PubMed 200 for
# BioNLP, are the papers'); without, vectors are learnt with the tagger. INPUTS=transformer adds ENCODER, frozen.
# Differs: crossner's optimiser and epochs; the papers' are SGD, 100 epochs, batches of 10 (the first paper's: 30). The
# first paper's source is CoNLL-2003 (SOURCE=conll2003), that of the second and here BioNLP13PC. One weight of the target's labels in all
# systems of several tasks, that of the second paper (BioNLP; 1 for Broad Twitter); the first one's is 2. CORPUS and
# SOURCE_CORPUS give the language models raw text beside the labelled sentences, which are all that table 3 reads.
# target-elmo (STM+ELMo) and multi-cell-elmo read language models of characters, as Flair's, trained on that text of
# STRINGS_TEXT; the first paper's are of words, their sizes not told, the second's are published ones (ELMo, BioELMo).
# encoder (BERT-BASE) is ENCODER with method linear, fine-tuned on the target alone.
set -euo pipefail
SOURCE=${SOURCE:-bionlp13pc}
TARGET=${TARGET:-bionlp13cg}
MAP_TYPES=${MAP_TYPES:-} # of CoNLL-2003 to Broad Twitter: person=PER,organisation=ORG,location=LOC
DEV_FROM_TRAIN=${DEV_FROM_TRAIN:-}
SCHEME=${SCHEME:-bioes}
DIGITS=${DIGITS:-zeros} # or kept
CHARACTER_DROPOUT=${CHARACTER_DROPOUT:-0.5}
TARGET_WEIGHT=${TARGET_WEIGHT:-1.6}
TRAIN_LIMIT=${TRAIN_LIMIT:-} # target sentences; figure 6 of the first paper takes fewer and fewer
CORPUS=${CORPUS:-}
SOURCE_CORPUS=${SOURCE_CORPUS:-}
EMBEDDINGS=${EMBEDDINGS:-}
INPUTS=${INPUTS:-words} # or transformer
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
EPOCHS=${EPOCHS:-12}
BATCH_SIZE=${BATCH_SIZE:-10}
RATE=${RATE:-3e-3} # of AdamW; the papers' is of SGD
STRINGS_TEXT=${STRINGS_TEXT:-both} # target and source are the paper's (TGT) and (SRC)
STRINGS_SIZE=${STRINGS_SIZE:-256}
STRINGS_EPOCHS=${STRINGS_EPOCHS:-10}
# Sizes of the table's larger BiLSTMs are not told: these have the parameters of the multi-cell LSTM on BioNLP; for the 5
# cells of Broad Twitter that is STACKED=3 EXPANDED=236.
STACKED=${STACKED:-8}
EXPANDED=${EXPANDED:-420}
ENCODER_EPOCHS=${ENCODER_EPOCHS:-5}
SYSTEMS=${SYSTEMS:-target target-elmo encoder fine-tune multi-task multi-task-lm co-lm co-ner mix-data full pgn grad multi-cell-target \
  multi-cell multi-cell-elmo multi-cell-no-entity multi-cell-no-attention multi-cell-no-losses stacked expanded}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/multi-task-$TARGET}

data=(--source "$SOURCE" --target "$TARGET" --scheme "$SCHEME")
if [ -n "$MAP_TYPES" ]; then data+=(--map-types "$MAP_TYPES"); fi
if [ -n "$DEV_FROM_TRAIN" ]; then data+=(--dev-from-train "$DEV_FROM_TRAIN"); fi
if [ -n "$TRAIN_LIMIT" ]; then data+=(--train-limit "$TRAIN_LIMIT"); fi
if [ -n "$CORPUS" ]; then data+=(--corpus "$CORPUS" --corpus-level domain); fi
if [ -n "$SOURCE_CORPUS" ]; then data+=(--source-corpus "$SOURCE_CORPUS"); fi
crossner prepare-data "${data[@]}"

of_words=(--encoder "$ENCODER" --epochs "$EPOCHS" --batch-size "$BATCH_SIZE" --head-learning-rate "$RATE" --seeds "$SEEDS")
of_words+=(--set digits="$DIGITS" --set character_dropout="$CHARACTER_DROPOUT")
if [ -n "$EMBEDDINGS" ]; then of_words+=(--set embeddings="$EMBEDDINGS"); fi
if [ "$INPUTS" = transformer ]; then of_words+=(--set transformer=frozen); fi
weight=(--set target_weight="$TARGET_WEIGHT")
both=(joint-train --upsample 1 "${weight[@]}")
stm=(--method cross-domain-lm --set generator=none)
lm=(--method cross-domain-lm)
if [ -z "$CORPUS$SOURCE_CORPUS" ]; then # without raw text, as the paper: what is read for its tags is read for its words
  lm+=(--set lm_text=labelled)
fi
# Language models of characters, trained once for all systems.
strings() {
  crossner dapt --encoder strings --text "$STRINGS_TEXT" --hidden-size "$STRINGS_SIZE" --epochs "$STRINGS_EPOCHS" \
    --name strings
}
of_strings=(--set strings=frozen --set string_embeddings=strings)
models=()
for system in $SYSTEMS; do
  train=("${both[@]}")
  all=("${of_words[@]}")
  case $system in
    target) train=(finetune "${stm[@]}" --set tasks=target-ner) ;;
    target-elmo)
      strings
      train=(finetune "${stm[@]}" --set tasks=target-ner "${of_strings[@]}")
      ;;
    encoder)
      train=(finetune --method linear)
      all=(--encoder "$ENCODER" --epochs "$ENCODER_EPOCHS" --seeds "$SEEDS")
      ;;
    fine-tune)
      crossner pretrain-source "${stm[@]}" --set tasks=source-ner "${of_words[@]}" --name source
      train=(finetune "${stm[@]}" --set tasks=target-ner --start-from source)
      ;;
    multi-task) train+=(--method multi-task-lstm) ;;
    multi-task-lm) train+=("${lm[@]}" --set generator=none) ;;
    co-lm) train=(finetune "${lm[@]}" --set generator=task --set tasks=target-ner,target-lm "${weight[@]}") ;;
    co-ner) train+=(--method cross-domain-lm --set generator=domain --set tasks=target-ner,source-ner) ;;
    mix-data) train+=("${lm[@]}" --set lm_mixed=true) ;;
    full) train+=("${lm[@]}") ;;
    pgn) train+=(--method multi-task-lstm --set generator=domain) ;;
    grad) train+=(--method multi-task-lstm --set adversary=grad) ;;
    multi-cell-target) train=(finetune --method multi-cell-lstm --set tasks=target-ner) ;;
    multi-cell) train+=(--method multi-cell-lstm) ;;
    multi-cell-elmo)
      strings
      train+=(--method multi-cell-lstm "${of_strings[@]}")
      ;;
    multi-cell-no-entity) train+=(--method multi-cell-lstm --set entity_weight=0) ;;
    multi-cell-no-attention) train+=(--method multi-cell-lstm --set attention_weight=0) ;;
    multi-cell-no-losses) train+=(--method multi-cell-lstm --set entity_weight=0 --set attention_weight=0) ;;
    stacked) train+=(--method multi-task-lstm --set lstm_layers="$STACKED") ;;
    expanded) train+=(--method multi-task-lstm --set lstm_size="$EXPANDED") ;;
    *) echo "There is no system $system." >&2 && exit 2 ;;
  esac
  crossner "${train[@]}" "${all[@]}" --name "$system"
  models+=(--model "$system")
done
crossner evaluate "${models[@]}"
