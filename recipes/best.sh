#!/usr/bin/env bash
# The best tagger of a small machine: the steps of `crossner adapt` beside the plain transfer, with several seeds of the
# source and of the target. Test F1 and what each lever is worth: recipes/README.md
# Source: none; the levers are those of docs/adapt.md.
# Needs: CROSSNER_MIRROR or a network for the data sets; raw text in RAW, and names with their types in NAMES.
set -euo pipefail
SOURCE=${SOURCE:-conll2003}
TARGETS=${TARGETS:-ai music politics}
ENCODER=${ENCODER:-minilm}
CORPORA=${CROSSNER_MIRROR:+$CROSSNER_MIRROR/corpora}
RAW=${RAW:-$CORPORA/wikipedia_sentences.txt}
NAMES=${NAMES:-$CORPORA/wikipedia_entities.tsv}
TYPES=${TYPES-PER=person,LOC=location,ORG=organisation,MISC=misc} # of NAMES, as the targets call them
SEEDS=${SEEDS:-1:1,2,3 2:4,5} # of the source, and of the taggers that start from it
TEACHERS=${TEACHERS:-1,2,3}
SENTENCES=${SENTENCES:-6000} # of raw text, which the teachers label
SHAPES=${SHAPES---word-shapes} # empty: without
MENTIONS=${MENTIONS-0.5}
RUNS=${RUNS:-runs/best}
PYTHON=${PYTHON:-python3} # of the same installation

# The sources are trained once for all targets.
first=${TARGETS%% *}
weak=()
if [ -n "$NAMES" ]; then
  crossner prepare-data --run "$RUNS/weak" --target "$first" --corpus "$RAW" --entities "$NAMES" --corpus-level entity \
    --min-entities 1 --sentences-per-line --weak-labels
  mkdir -p "$RUNS/data"
  cp -r "$RUNS/weak/prepare-data/weak-labels" "$RUNS/data/wikipedia"
  weak=(--source "$RUNS/data/wikipedia" ${TYPES:+--map-types "$TYPES"})
fi
crossner prepare-data --run "$RUNS/source" --source "$SOURCE" "${weak[@]}" --target "$first"
crossner prepare-data --run "$RUNS/plain" --source "$SOURCE" --target "$first"
for pair in $SEEDS; do
  seed=${pair%%:*}
  # shellcheck disable=SC2086
  crossner pretrain-source --run "$RUNS/source" --name "source-$seed" --encoder "$ENCODER" $SHAPES --epochs 3 --keep last \
    --seed "$seed"
  crossner pretrain-source --run "$RUNS/plain" --name "source-$seed" --encoder "$ENCODER" --seed "$seed"
done

for target in $TARGETS; do
  for pair in $SEEDS; do
    seed=${pair%%:*} seeds=${pair#*:}
    export CROSSNER_RUN=$RUNS/$target-$seed
    source=$RUNS/source/source-$seed
    crossner prepare-data --target "$target" --corpus "$RAW"
    crossner finetune --name plain --start-from "$RUNS/plain/source-$seed" --seeds "$seeds"
    crossner finetune --name teachers --start-from "$source" --epochs 40 --keep last --replace-mentions "$MENTIONS" \
      --seeds "$TEACHERS"
    mkdir -p "$CROSSNER_RUN/labels"
    crossner label --teacher teachers --sentences "$SENTENCES" --output "$CROSSNER_RUN/labels/silver"
    crossner prepare-data --run "$CROSSNER_RUN/taught" --target "$target" --silver "$CROSSNER_RUN/labels/silver"
    crossner finetune --run "$CROSSNER_RUN/taught" --name tagger --start-from "$source" --epochs 20 --batch-size 16 \
      --keep last --replace-mentions "$MENTIONS" --silver-weight 0.1 --seeds "$seeds"
    crossner evaluate --ensemble --name evaluate-teachers --model teachers
    crossner evaluate --name evaluate-best --model plain --model "$CROSSNER_RUN/taught/tagger"
  done
done

# All seeds of both sources together: difference of the tagger to the plain transfer, and its interval.
"$PYTHON" - "$RUNS" "$TARGETS" "$SEEDS" <<'PYTHON'
import dataclasses, sys
from pathlib import Path

from crossner_cli.evaluation.comparison import CountedModel, compare_models
from crossner_cli.evaluation.finished import find_evaluation

runs, targets, seeds = Path(sys.argv[1]), sys.argv[2].split(), [pair.partition(":")[0] for pair in sys.argv[3].split()]
for target in targets:
    found = [find_evaluation(runs / f"{target}-{seed}" / "evaluate-best").models() for seed in seeds]
    pooled = []
    for parts in zip(*found):
        files = {seed: path for part in parts for seed, path in part.files.items()}
        pooled.append(CountedModel(dataclasses.replace(parts[0], files=files, digests={}), "conll"))
    plain, tagger = pooled
    pair = compare_models(tagger, plain, seed=1)
    print(f"{target}: {pair['difference']:+.2f} [{pair['low']:.2f}, {pair['high']:.2f}]")
PYTHON
