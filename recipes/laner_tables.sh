#!/usr/bin/env bash
# LANER beside its ablations and the taggers it is compared with: tables 2 and 3 with a source, table 4 without (direct).
# Source: Hu et al. (2022), tables 2 to 4. Published and measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; CORPUS, raw text of the target domain, for ADAPTATIONS=span;
# for the system bartner (without adaptation) ENCODER_DECODER, a name or folder such as facebook/bart-base (where there
# is none, encoder_decoder.sh makes one, which has more to learn: SOURCE_EPOCHS=6); for flair
# (likewise) EMBEDDINGS, a file of static vectors, and STRINGS, a folder with Flair's news models of characters
# (flair_strings.sh writes it); without STRINGS smaller ones are trained on the run's raw text, or its training sentences.
# Differs: settings are crossner's defaults; the paper's are batches of 16, 5e-5 (mit-restaurant 1e-5), up to 100
# epochs, patience 16. The published MIT scores were chosen on test, which is their dev; DEV_FROM_TRAIN keeps them
# apart. Scored twice: decoded to legal tag sequences, crossner's default, and to any, as the paper does. Flair's tagger
# has one BiLSTM layer of 256 units over frozen models of characters and vectors; its SGD and dropout are crossner's
# here.
set -euo pipefail
TARGET=${TARGET:-ai}
SOURCE=${SOURCE:-conll2003}
CORPUS=${CORPUS:-}
ENTITIES=${ENTITIES:-} # a list of names, for the paper's CORPUS_LEVEL: integrated
CORPUS_LEVEL=${CORPUS_LEVEL:-domain}
DEV_FROM_TRAIN=${DEV_FROM_TRAIN:-} # mit-movie and mit-restaurant have no dev split of their own: 0.1
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
SOURCE_SEEDS=${SOURCE_SEEDS:-$SEEDS}
EPOCHS=${EPOCHS:-15} # flair, of which all but its inputs is new, wants 40
SOURCE_EPOCHS=${SOURCE_EPOCHS:-2}
EMBEDDINGS=${EMBEDDINGS:-}
STRINGS=${STRINGS:-}
STRINGS_SIZE=${STRINGS_SIZE:-256} # of those that are trained here; Flair's have 2048
STRINGS_EPOCHS=${STRINGS_EPOCHS:-1}
ADAPTATIONS=${ADAPTATIONS:-none}
ADAPTATION_RATE=${ADAPTATION_RATE:-1e-4}
ADAPTATION_EPOCHS=${ADAPTATION_EPOCHS:-5}
REGIMES=${REGIMES:-transfer direct}
SYSTEMS=${SYSTEMS:-linear crf laner laner-without-context laner-without-background}
# Folder of a run that has the stages source-SYSTEM-ADAPTATION already, as that of another target.
SOURCES=${SOURCES:-}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/laner-$TARGET}

# Method and settings of a system, in the array train.
choose() {
  train=(--encoder "$ENCODER")
  case $1 in
    laner-without-context) train+=(--method laner --set context=false) ;;
    laner-without-background) train+=(--method laner --set background=false) ;;
    bartner) train=(--method bartner --encoder "${ENCODER_DECODER:?names no encoder-decoder, which bartner needs}") ;;
    flair)
      train=(--method bilstm-crf --set lstm_layers=1 --set characters=none --set words=frozen)
      train+=(--set embeddings="${EMBEDDINGS:?names no file of static vectors, which flair needs}")
      train+=(--set strings=frozen --set string_embeddings="${STRINGS:-strings}")
      ;;
    *) train+=(--method "$1") ;;
  esac
}

data=(--source "$SOURCE" --target "$TARGET")
if [ -n "$CORPUS" ]; then data+=(--corpus "$CORPUS" --corpus-level "$CORPUS_LEVEL"); fi
if [ -n "$ENTITIES" ]; then data+=(--entities "$ENTITIES"); fi
if [ -n "$DEV_FROM_TRAIN" ]; then data+=(--dev-from-train "$DEV_FROM_TRAIN"); fi
crossner prepare-data "${data[@]}"
if [[ " $SYSTEMS " = *" flair "* && -z $STRINGS ]]; then
  crossner dapt --encoder strings --text both --hidden-size "$STRINGS_SIZE" --epochs "$STRINGS_EPOCHS" --name strings
fi
models=()
sequences=() # of bartner, which writes entities instead of tags, there is nothing to decode otherwise
for adaptation in $ADAPTATIONS; do
  start=base
  if [ "$adaptation" != none ]; then
    start=dapt-$adaptation
    crossner dapt --name "$start" --encoder "$ENCODER" --masking "$adaptation" --corpus-level "$CORPUS_LEVEL" \
      --learning-rate "$ADAPTATION_RATE" --epochs "$ADAPTATION_EPOCHS"
  fi
  for system in $SYSTEMS; do
    choose "$system"
    for regime in $REGIMES; do
      model=$regime-$system-$adaptation
      from=$start
      if [ "$regime" = transfer ]; then
        from=source-$system-$adaptation
        if [ -n "$SOURCES" ]; then from=$SOURCES/$from; else
          crossner pretrain-source "${train[@]}" --seeds "$SOURCE_SEEDS" --epochs "$SOURCE_EPOCHS" --name "$from" \
            --start-from "$start"
        fi
      fi
      crossner finetune "${train[@]}" --seeds "$SEEDS" --epochs "$EPOCHS" --name "$model" --start-from "$from"
      models+=(--model "$model")
      if [ "$system" != bartner ]; then sequences+=(--model "$model"); fi
    done
  done
done
crossner evaluate "${models[@]}"
# As the papers decode: any sequence of tags.
if [ ${#sequences[@]} -gt 0 ]; then crossner evaluate "${sequences[@]}" --decoding any --name evaluate-any; fi
