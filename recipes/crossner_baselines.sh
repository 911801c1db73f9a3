#!/usr/bin/env bash
# CrossNER, the baselines of table 2, trained jointly on source and target: BiLSTM-CRF and Coach, of words or of words
# and characters; cross-domain language modelling; the multi-cell LSTM beside a frozen ENCODER, adapted or not.
# Source: Liu et al. (2021), table 2, the rows before theirs. Published and measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; EMBEDDINGS, a file of static vectors (GloVe 6B, 300 values, is
# the paper's), or corpus together with CORPUS, raw text to train them on. NGRAM_EMBEDDINGS: charNgram.txt, if there is
# one; without, the vectors of n-grams are learnt.
# Differs: the rate is that of all methods of words here, 5e-3 falling to 0 in EPOCHS; the paper's are 1e-3 for
# BiLSTM-CRF and 1e-4 for Coach, constant. The
# settings of its two last rows are not told, nor whether the encoder of the multi-cell LSTM was trained.
set -euo pipefail
TARGET=${TARGET:-ai}
SOURCE=${SOURCE:-conll2003}
CORPUS=${CORPUS:-}
EMBEDDINGS=${EMBEDDINGS:-corpus}
NGRAM_EMBEDDINGS=${NGRAM_EMBEDDINGS:-}
WORD_SIZE=${WORD_SIZE:-300}
DROPOUT=${DROPOUT:-0.5} # the paper's; 0.3 for politics
SEEDS=${SEEDS:-1,2,3}
EPOCHS=${EPOCHS:-10}
METHODS=${METHODS:-bilstm-crf coach cross-domain-lm multi-cell-lstm}
READINGS=${READINGS:-word word-char}     # of BiLSTM-CRF and Coach
ADAPTATIONS=${ADAPTATIONS:-none${CORPUS:+ span}} # of the encoder beside the multi-cell LSTM; span reads CORPUS
ENTITIES=${ENTITIES:-}                   # a list of names, for the paper's CORPUS_LEVEL of span masks: integrated
CORPUS_LEVEL=${CORPUS_LEVEL:-domain}
ENCODER=${ENCODER:-minilm}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/baselines-$TARGET}

data=(--source "$SOURCE" --target "$TARGET")
if [ -n "$CORPUS" ]; then data+=(--corpus "$CORPUS"); fi
if [ -n "$ENTITIES" ]; then data+=(--entities "$ENTITIES"); elif [ -n "$CORPUS" ]; then data+=(--corpus-level domain); fi
crossner prepare-data "${data[@]}"
models=()
train() { # name, then options of joint-train
  crossner joint-train --set word_size="$WORD_SIZE" --set input_dropout="$DROPOUT" --set dropout="$DROPOUT" \
    --set embeddings="$EMBEDDINGS" --epochs "$EPOCHS" --batch-size 32 --upsample 10 --seeds "$SEEDS" --name "$@"
  models+=(--model "$1")
}
ngrams=(--set characters=ngrams --set character_size=100)
if [ -n "$NGRAM_EMBEDDINGS" ]; then ngrams+=(--set ngram_embeddings="$NGRAM_EMBEDDINGS"); fi
for method in $METHODS; do
  case $method in
    bilstm-crf | coach)
      for reading in $READINGS; do
        characters=(--set characters=none)
        if [ "$reading" = word-char ]; then characters=("${ngrams[@]}"); fi
        train "$method-$reading" --method "$method" "${characters[@]}"
      done
      ;;
    cross-domain-lm) train cross-domain-lm --method cross-domain-lm ;;
    multi-cell-lstm)
      for adaptation in $ADAPTATIONS; do
        start=base
        if [ "$adaptation" != none ]; then
          start=dapt-$adaptation
          crossner dapt --name "$start" --encoder "$ENCODER" --masking "$adaptation" --corpus-level "$CORPUS_LEVEL"
        fi
        train "multi-cell-lstm-$adaptation" --method multi-cell-lstm --set transformer=frozen --encoder "$ENCODER" \
          --start-from "$start"
      done
      ;;
    *) echo "There is no method $method here." >&2 && exit 2 ;;
  esac
done
crossner evaluate "${models[@]}"
