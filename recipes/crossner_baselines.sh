#!/usr/bin/env bash
# CrossNER, the word-level baselines of table 2: BiLSTM-CRF and Coach, of words or of words and characters, trained
# jointly on source and target.
# Source: Liu et al. (2021), table 2, the rows BiLSTM-CRF and Coach. Published and measured test F1: recipes/README.md
# Needs: CROSSNER_MIRROR or a network for the data sets; EMBEDDINGS, a file of static vectors (GloVe 6B, 300 values, is
# the paper's), or corpus together with CORPUS, raw text to train them on. NGRAM_EMBEDDINGS: charNgram.txt, if there is
# one; without, the vectors of n-grams are learnt.
# Differs: the rate of Coach is that of all methods here, 5e-3 falling to 0 in EPOCHS; the paper's is 1e-4, constant.
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
METHODS=${METHODS:-bilstm-crf coach}
READINGS=${READINGS:-word word-char}
export CROSSNER_RUN=${CROSSNER_RUN:-runs/baselines-$TARGET}

data=(--source "$SOURCE" --target "$TARGET")
if [ -n "$CORPUS" ]; then data+=(--corpus "$CORPUS" --corpus-level domain); fi
crossner prepare-data "${data[@]}"
models=()
for method in $METHODS; do
  for reading in $READINGS; do
    train=(--method "$method" --set word_size="$WORD_SIZE" --set input_dropout="$DROPOUT" --set dropout="$DROPOUT")
    train+=(--embeddings "$EMBEDDINGS" --epochs "$EPOCHS" --batch-size 32 --upsample 10)
    if [ "$reading" = word ]; then train+=(--set characters=none); else
      train+=(--set characters=ngrams --set character_size=100)
      if [ -n "$NGRAM_EMBEDDINGS" ]; then train+=(--ngram-embeddings "$NGRAM_EMBEDDINGS"); fi
    fi
    crossner joint-train "${train[@]}" --seeds "$SEEDS" --name "$method-$reading"
    models+=(--model "$method-$reading")
  done
done
crossner evaluate "${models[@]}" --force # again where METHODS or READINGS are other ones than last time
