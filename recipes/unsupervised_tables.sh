#!/usr/bin/env bash
# News labels, raw text of the target, no target label: self-training, DANN, cross-domain language models, multi-cell LSTM.
# Source: Jia, Liang and Zhang (2019), table 4; Jia and Zhang (2020), tables 3 and 5. Published F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; CORPUS, raw text of the target, and SOURCE_CORPUS, of the news
# (without, the news sentences themselves); DICTIONARY, names with types of the target, for the last systems and lm-dictionary.
# Differs: crossner's optimiser and epochs; RAW_BATCH_SIZE sentences of raw text an update, whatever there is of it (the
# papers read all of it once an epoch). The papers' target text is CBS SciTech News: 398,990 sentences, of which the
# second paper's rows but one read 1.9 million words; of it self-training and DANN read a selection, and the first
# paper's code lets the language model read the test sentences too, which here nothing does. source-elmo
# (STM+ELMo) reads language models of characters, as Flair's; the paper's are of words, their sizes not told. encoder
# (BERT-BASE) is ENCODER with method linear, fine-tuned on the source alone.
set -euo pipefail
SOURCE=${SOURCE:-conll2003}
TARGET=${TARGET:-cbs-scitech-2019} # or cbs-scitech-2020, the same sentences labelled anew: not to be compared
MAP_TYPES=${MAP_TYPES-person=PER,organisation=ORG,location=LOC,misc=MISC}
CORPUS=${CORPUS:?names no raw text of the target}
SOURCE_CORPUS=${SOURCE_CORPUS:-}
DICTIONARY=${DICTIONARY:-}
PHRASES=${PHRASES:-} # yes: names of several words label, too, which the paper's do not
EMBEDDINGS=${EMBEDDINGS:-}
INPUTS=${INPUTS:-words} # or transformer
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
EPOCHS=${EPOCHS:-10}
BATCH_SIZE=${BATCH_SIZE:-10}
RAW_BATCH_SIZE=${RAW_BATCH_SIZE:-32}
SCHEME=${SCHEME:-bioes}
DIGITS=${DIGITS:-zeros} # or kept
CHARACTER_DROPOUT=${CHARACTER_DROPOUT:-0.5}
RATE=${RATE:-3e-3} # of AdamW; the papers' is of SGD
STRINGS_TEXT=${STRINGS_TEXT:-both} # target and source are the paper's (TGT) and (SRC)
STRINGS_SIZE=${STRINGS_SIZE:-256}
STRINGS_EPOCHS=${STRINGS_EPOCHS:-1}
# Sizes of table 5's larger BiLSTMs are not told: these have the parameters of the multi-cell LSTM of 5 cells, 733,000.
STACKED=${STACKED:-3}
EXPANDED=${EXPANDED:-236}
SELF_TRAIN_SCORE=${SELF_TRAIN_SCORE-0.9} # self-training reads sentences whose entities all score this; empty: all sentences
ENCODER_EPOCHS=${ENCODER_EPOCHS:-2}
SYSTEMS=${SYSTEMS:-source source-elmo encoder self-train dann full full-alike lm lm-dictionary multi-cell-source multi-cell \
  multi-cell-dictionary multi-cell-no-entity multi-cell-no-attention multi-cell-no-losses stacked expanded}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/unsupervised-$TARGET}

data=(--target "$TARGET" --scheme "$SCHEME" --corpus "$CORPUS" --corpus-level domain)
if [ -n "$MAP_TYPES" ]; then data+=(--map-types "$MAP_TYPES"); fi
if [ -n "$SOURCE_CORPUS" ]; then data+=(--source-corpus "$SOURCE_CORPUS"); fi
crossner prepare-data --source "$SOURCE" "${data[@]}"

of_words=(--encoder "$ENCODER" --epochs "$EPOCHS" --batch-size "$BATCH_SIZE" --head-learning-rate "$RATE" --seeds "$SEEDS")
of_words+=(--select-on source --set digits="$DIGITS" --set character_dropout="$CHARACTER_DROPOUT")
if [ -n "$EMBEDDINGS" ]; then of_words+=(--set embeddings="$EMBEDDINGS"); fi
if [ "$INPUTS" = transformer ]; then of_words+=(--set transformer=frozen); fi
stm=(--method cross-domain-lm --set generator=none --set tasks=source-ner)
raw=(--set raw_batch_size="$RAW_BATCH_SIZE")
cells=(joint-train --method multi-cell-lstm --set tasks=source-ner,target-lm "${raw[@]}" --set raw_minimum=1) # every raw word is known
full=(--method cross-domain-lm --set tasks=source-ner,target-lm,source-lm "${raw[@]}")
weights=(--set entity_weight=0.1 --set attention_weight=0.5)
lm=(joint-train --method cross-domain-lm --set generator=none --set tasks=source-ner,target-lm --set lm_text=raw)
lm+=("${raw[@]}" --set raw_minimum=1)
names=()
if [ -n "$DICTIONARY" ]; then names=(--set dictionary="$DICTIONARY"); fi
if [ -n "$PHRASES" ]; then names+=(--set dictionary_phrases=true); fi
needs_names() { : "${DICTIONARY:?names no list of names}"; }

# The first tagger, all its seeds, labels the target's raw text; what it is sure of is learnt together with the news.
self_train() {
  local run=$CROSSNER_RUN-self-train${SELF_TRAIN_SCORE:+-$SELF_TRAIN_SCORE}
  local silver=$run-silver sources=(--source "$SOURCE" --source "$run-silver")
  if [ -n "$MAP_TYPES" ]; then sources+=(--map-types "$MAP_TYPES"); fi
  crossner label "$CROSSNER_RUN/prepare-data/corpus/domain.txt" --teacher source --output "$silver" --force \
    ${SELF_TRAIN_SCORE:+--min-probability "$SELF_TRAIN_SCORE"}
  crossner prepare-data --run "$run" "${sources[@]}" --target "$TARGET" --scheme "$SCHEME"
  crossner pretrain-source --run "$run" "${stm[@]}" "${of_words[@]}" --name self-train
  models+=(--model "$run/self-train")
}

models=()
for system in $SYSTEMS; do
  train=(joint-train)
  all=("${of_words[@]}")
  case $system in
    source) train=(pretrain-source "${stm[@]}") ;;
    encoder)
      train=(pretrain-source --method linear)
      all=(--encoder "$ENCODER" --epochs "$ENCODER_EPOCHS" --seeds "$SEEDS" --select-on source)
      ;;
    source-elmo)
      crossner dapt --encoder strings --text "$STRINGS_TEXT" --hidden-size "$STRINGS_SIZE" --epochs "$STRINGS_EPOCHS" \
        --name strings
      train=(pretrain-source "${stm[@]}" --set strings=frozen --set string_embeddings=strings)
      ;;
    self-train)
      self_train
      continue
      ;;
    dann) train+=(--method multi-task-lstm --set tasks=source-ner,target-lm --set adversary=dann "${raw[@]}") ;;
    full) train+=("${full[@]}") ;;
    full-alike) train+=("${full[@]}" --set domain_vectors=alike) ;;
    lm) train=("${lm[@]}") ;;
    lm-dictionary) needs_names && train=("${lm[@]}" --set entity_weight=0.1 "${names[@]}") ;;
    multi-cell-source) train=(pretrain-source --method multi-cell-lstm --set tasks=source-ner "${weights[@]}") ;;
    multi-cell) train=("${cells[@]}" "${weights[@]}") ;;
    multi-cell-dictionary) needs_names && train=("${cells[@]}" "${weights[@]}" "${names[@]}") ;;
    multi-cell-no-entity) needs_names && train=("${cells[@]}" --set entity_weight=0 --set attention_weight=0.5 "${names[@]}") ;;
    multi-cell-no-attention) needs_names && train=("${cells[@]}" --set entity_weight=0.1 --set attention_weight=0 "${names[@]}") ;;
    # Its type losses alone read a dictionary.
    multi-cell-no-losses) train=("${cells[@]}" --set entity_weight=0 --set attention_weight=0) ;;
    stacked) needs_names && train=("${lm[@]}" --set entity_weight=0.1 --set lstm_layers="$STACKED" "${names[@]}") ;;
    expanded) needs_names && train=("${lm[@]}" --set entity_weight=0.1 --set lstm_size="$EXPANDED" "${names[@]}") ;;
    *) echo "There is no system $system." >&2 && exit 2 ;;
  esac
  crossner "${train[@]}" "${all[@]}" --name "$system"
  models+=(--model "$system")
done
crossner evaluate "${models[@]}"
