#!/usr/bin/env bash
# Zero-resource NER: trained on news, chosen on news dev, scored on a domain of which nothing was seen.
# Source: Liu, Winata and Fung (2020), table 1. Published and measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; EMBEDDINGS, a file of static vectors (fastText wiki.en.vec is the
# paper's), or corpus together with CORPUS, raw text to train them on, of no domain in particular.
# Differs: AdamW at crossner's rates, falling to 0 in EPOCHS (the paper's are Adam, 1e-3, of the taggers of type
# descriptions 1e-4); frozen, words that a file of vectors lacks share one vector, where the paper's has them from their
# letters. With a transformer the published taggers have no BiLSTM: here those of type descriptions keep the one that reads
# a type's pass, robust-tagger the one before it too. Scored twice: decoded to legal tag sequences, and to any.
set -euo pipefail
TARGET=${TARGET:-cbs-scitech-2019} # or cbs-scitech-2020, the same sentences labelled anew: not to be compared
SOURCE=${SOURCE:-conll2003}
MAP_TYPES=${MAP_TYPES-person=PER,organisation=ORG,location=LOC,misc=MISC}
CORPUS=${CORPUS:-}
EMBEDDINGS=${EMBEDDINGS:-corpus}
WORD_SIZE=${WORD_SIZE:-300}
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
EPOCHS=${EPOCHS:-10}
TRANSFORMER_EPOCHS=${TRANSFORMER_EPOCHS:-2}
READINGS=${READINGS:-frozen trained transformer} # static vectors, frozen or trained; or a transformer, fine-tuned
SYSTEMS=${SYSTEMS:-concept-tagger robust-tagger bilstm-crf mtl moee mtl-moee}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/zero-resource-$TARGET}

data=(--source "$SOURCE" --target "$TARGET")
if [ -n "$MAP_TYPES" ]; then data+=(--map-types "$MAP_TYPES"); fi
if [ -n "$CORPUS" ]; then data+=(--corpus "$CORPUS" --corpus-level domain); fi
crossner prepare-data "${data[@]}"

# Method and settings of a system, in the array train. The paper's sizes: two layers of 200 units a direction, dropout
# 0.3; robust-tagger: half of a vector, 150 of 300.
choose() {
  local system=$1 reading=$2
  train=(--encoder "$ENCODER")
  case $system-$reading in
    bilstm-crf-transformer) train+=(--method linear --epochs "$TRANSFORMER_EPOCHS") && return ;;
    mtl-moee-*) train+=(--method moee) ;;
    moee-*) train+=(--method moee --set multi_task=false) ;;
    *) train+=(--method "$system") ;;
  esac
  if [ "$reading" = transformer ]; then
    train+=(--set words=none --set characters=none --set transformer=trained --set input_dropout=0.1)
    train+=(--epochs "$TRANSFORMER_EPOCHS")
    case $system in
      mtl | moee | mtl-moee) train+=(--set lstm_layers=0 --set decoder=softmax) ;;
      concept-tagger) train+=(--set lstm_layers=0) ;;
      robust-tagger) train+=(--set lstm_layers=1) ;; # its examples are compared with the states of a BiLSTM
    esac
    return
  fi
  train+=(--set words="$reading" --set characters=none --set word_size="$WORD_SIZE" --set embeddings="$EMBEDDINGS")
  train+=(--epochs "$EPOCHS" --batch-size 32)
  if [ "$system" = bilstm-crf ]; then train+=(--set lstm_size=200 --set dropout=0.3); fi
}

models=()
for reading in $READINGS; do
  for system in $SYSTEMS; do
    choose "$system" "$reading"
    crossner pretrain-source "${train[@]}" --seeds "$SEEDS" --name "$system-$reading"
    models+=(--model "$system-$reading")
  done
done
crossner evaluate "${models[@]}"
# As the paper's token softmax decodes: each word's likeliest tag, whether or not it may follow the one before.
crossner evaluate "${models[@]}" --decoding any --name evaluate-any
