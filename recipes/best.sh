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
SEEDS=${SEEDS:-1:1,2,3 2:4,5} # of the source, and of the taggers that start from it
TEACHERS=${TEACHERS:-1,2,3}
SENTENCES=${SENTENCES:-6000} # of raw text, which the teachers label
LEVERS=${LEVERS-shapes names mentions teachers} # fewer, or none, to see what each is worth
RUNS=${RUNS:-runs/best}
PYTHON=${PYTHON:-python3} # of the same installation

has() { [[ " $LEVERS " == *" $1 "* ]]; }
row=${LEVERS// /-} row=${row:-none}
untaught=${row%-teachers} untaught=${untaught/#teachers/none}

# The sources are trained once for all targets.
first=${TARGETS%% *}
sources=$RUNS/source shapes=() weak=() mentions=()
if has shapes; then
  sources+=-shapes shapes=(--word-shapes)
fi
if has names; then
  text=$RAW
  for target in $TARGETS; do # each leaves out the sentences of its own dev and test
    crossner prepare-data --run "$RUNS/weak-$target" --target "$target" --corpus "$text" --entities "$NAMES" \
      --corpus-level entity --min-entities 1 --sentences-per-line --weak-labels
    text=$RUNS/weak-$target/prepare-data/corpus/entity.txt
  done
  mkdir -p "$RUNS/data"
  [ -d "$RUNS/data/wikipedia" ] || cp -r "$RUNS/weak-$target/prepare-data/weak-labels" "$RUNS/data/wikipedia"
  sources+=-names weak=(--source "$RUNS/data/wikipedia" --map-types auto)
fi
if has mentions; then mentions=(--replace-mentions 0.5); fi
crossner prepare-data --run "$sources" --source "$SOURCE" "${weak[@]}" --target "$first"
crossner prepare-data --run "$RUNS/plain" --source "$SOURCE" --target "$first"
for pair in $SEEDS; do
  seed=${pair%%:*}
  crossner pretrain-source --run "$sources" --name "source-$seed" --encoder "$ENCODER" "${shapes[@]}" --epochs 3 \
    --keep last --seed "$seed"
  crossner pretrain-source --run "$RUNS/plain" --name "source-$seed" --encoder "$ENCODER" --seed "$seed"
done

for target in $TARGETS; do
  for pair in $SEEDS; do
    seed=${pair%%:*} seeds=${pair#*:}
    export CROSSNER_RUN=$RUNS/$target-$seed
    crossner prepare-data --target "$target" --corpus "$RAW"
    passes=$(awk 'END { print int(20 * (NR > 200 ? 200 / NR : 1) + 0.5) }' "$CROSSNER_RUN/prepare-data/target/train.jsonl")
    last=(--start-from "$sources/source-$seed" --epochs "$passes" --keep last "${mentions[@]}")
    crossner finetune --name plain --start-from "$RUNS/plain/source-$seed" --seeds "$seeds"
    crossner finetune --name "after-$untaught" "${last[@]}" --seeds "$TEACHERS"
    tagger=after-$untaught
    if has teachers; then
      mkdir -p "$CROSSNER_RUN/labels"
      [ -d "$CROSSNER_RUN/labels/$row" ] ||
        crossner label --teacher "after-$untaught" --sentences "$SENTENCES" --output "$CROSSNER_RUN/labels/$row"
      tagger=$CROSSNER_RUN/taught-$row/tagger
      crossner prepare-data --run "${tagger%/*}" --target "$target" --silver "$CROSSNER_RUN/labels/$row"
      crossner finetune --run "${tagger%/*}" --name tagger "${last[@]}" --batch-size 16 \
        --silver-weight "$(awk "BEGIN { print 2 / $passes }")" --seeds "$seeds"
      crossner evaluate --ensemble --name "evaluate-teachers-$row" --model "after-$untaught"
    fi
    crossner evaluate --name evaluate-plain --model plain
    crossner evaluate --name "evaluate-$row" --model "$tagger"
  done
done

# All seeds together: F1, and the difference to the plain transfer and, if it was measured before, to that of all levers.
"$PYTHON" - "$RUNS" "$TARGETS" "$SEEDS" "$row" <<'PYTHON'
import dataclasses, sys
from pathlib import Path

from crossner_cli.evaluation.comparison import CountedModel, compare_models
from crossner_cli.evaluation.finished import find_evaluation

runs, targets, row = Path(sys.argv[1]), sys.argv[2].split(), sys.argv[4]
sources = [pair.partition(":")[0] for pair in sys.argv[3].split()]


def pool(target, name):
    models = {source: find_evaluation(runs / f"{target}-{source}" / f"evaluate-{name}").models()[0] for source in sources}
    files = {f"{source}-{seed}": path for source, model in models.items() for seed, path in model.files.items()}
    return CountedModel(dataclasses.replace(models[sources[0]], files=files, digests={}), "conll")


for target in targets:
    tagger = pool(target, row)
    f1 = tagger.count(sorted(tagger.types())).f1()[:, 0]
    shown = f"{target}, {row}: {f1.mean():.2f} ± {f1.std(ddof=1) if len(f1) > 1 else 0:.2f}"
    for other in ("plain", "shapes-names-mentions-teachers"):
        if other != row and (runs / f"{target}-{sources[0]}" / f"evaluate-{other}").is_dir():
            pair = compare_models(tagger, pool(target, other), seed=1)
            shown += f", to {other} {pair['difference']:+.2f} [{pair['low']:.2f}, {pair['high']:.2f}]"
    print(shown)
PYTHON
