#!/usr/bin/env bash
# The circle of teacher, annotator and tagger: a few gold sentences train a teacher of several seeds; it labels raw text
# for a student (silver), and orders unlabelled sentences by how sure it is; a person corrects the least sure ones, and
# all is trained again. Beside it the same with sentences chosen at random. Measured test F1: recipes/README.md
# Source: none; the circle is how people build a tagger. The person is simulated by the labels that the data set has.
# Needs: CROSSNER_MIRROR or a network for the data set; raw text in RAW, which may be empty: then no student is trained.
set -euo pipefail
TARGET=${TARGET:-music}
ENCODER=${ENCODER:-minilm}
SEEDS=${SEEDS:-1,2,3}
GOLD=${GOLD:-60}      # labelled sentences to begin with
CORRECT=${CORRECT:-10} # sentences that are corrected in a round
ROUNDS=${ROUNDS:-4}   # the first one has the gold sentences alone
CHOICES=${CHOICES:-uncertain random}
EPOCHS=${EPOCHS:-15}
RAW=${RAW-${CROSSNER_MIRROR:+$CROSSNER_MIRROR/corpora/wikipedia_sentences.txt}}
SILVER=${SILVER:-500} # sentences that the teacher labels
STUDENT_EPOCHS=${STUDENT_EPOCHS:-5}
RUNS=${RUNS:-runs/circle-$TARGET}

# Writes project.json, the export of a Label Studio project with all sentences that are labelled so far, and pool.jsonl,
# those that are not. Of the pool, tasks.json has the order; without it the order is drawn.
annotate() { # FOLDER BEFORE COUNT SEED
  python3 - "$RUNS/all/prepare-data/target/train.jsonl" "$@" <<'PYTHON'
import json, random, sys
from pathlib import Path

gold, folder, before, count, seed = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
sentences = [json.loads(line) for line in gold.read_text(encoding="utf-8").splitlines()]


def units(text):
    return len(text.encode("utf-16-le")) // 2


def task(number):
    """A task as the annotator leaves it: the sentence with its gold entities, their places in UTF-16 code units."""
    words, tags = sentences[number]["words"], sentences[number]["tags"]
    spans, place = [], 0
    for word, tag in zip(words, tags):
        end = place + units(word)
        if tag.startswith("B-"):
            spans.append({"start": place, "end": end, "labels": [tag[2:]]})
        elif tag.startswith("I-"):
            spans[-1]["end"] = end
        place = end + 1
    result = [{"from_name": "label", "to_name": "text", "type": "labels", "value": span} for span in spans]
    return {"id": number, "data": {"text": " ".join(words), "id": number}, "annotations": [{"result": result}]}


if (before / "project.json").is_file():
    project = json.loads((before / "project.json").read_text(encoding="utf-8"))
    labelled = [each["id"] for each in project]
    if (before / "tasks.json").is_file():  # pre-annotations, the least certain first
        order = [each["data"]["id"] for each in json.loads((before / "tasks.json").read_text(encoding="utf-8"))]
    else:
        order = [number for number in range(len(sentences)) if number not in labelled]
        random.Random(seed).shuffle(order)
    labelled += order[:count]
else:
    labelled = list(range(count))
folder.mkdir(parents=True, exist_ok=True)
(folder / "project.json").write_text(json.dumps([task(number) for number in labelled]), encoding="utf-8")
rest = [number for number in range(len(sentences)) if number not in labelled]
with (folder / "pool.jsonl").open("w", encoding="utf-8") as stream:
    for number in rest:
        stream.write(json.dumps({"text": " ".join(sentences[number]["words"]), "id": number}) + "\n")
PYTHON
}

crossner prepare-data --run "$RUNS/all" --target "$TARGET"
runs=()
for choice in $CHOICES; do
  before=$RUNS/none
  for ((round = 1; round <= ROUNDS; round++)); do
    export CROSSNER_RUN=$RUNS/$choice-$round
    data=$RUNS/data/$choice-$round/$TARGET
    annotate "$data" "$before" "$([ "$round" = 1 ] && echo "$GOLD" || echo "$CORRECT")" "$round"
    cp "$data/project.json" "$data/train.json"
    cp "$RUNS"/all/prepare-data/target/{dev,test}.jsonl "$data"
    crossner prepare-data --target "$data"
    crossner finetune --name teacher --encoder "$ENCODER" --epochs "$EPOCHS" --seeds "$SEEDS"
    models=(--model teacher)
    if [ -n "$RAW" ]; then
      crossner label "$RAW" --teacher teacher --select random --sentences "$SILVER" --output "$data/silver" --force
      crossner prepare-data --run "$CROSSNER_RUN/student" --target "$data" --silver "$data/silver"
      crossner finetune --run "$CROSSNER_RUN/student" --name student --encoder "$ENCODER" --epochs "$STUDENT_EPOCHS" \
        --seeds "$SEEDS"
      models+=(--model "$CROSSNER_RUN/student/student")
    fi
    crossner evaluate "${models[@]}"
    if [ "$choice" = uncertain ]; then
      crossner predict "$data/pool.jsonl" --model teacher --format label-studio --order uncertain \
        --output "$data/tasks.json" --force
    fi
    before=$data
    runs+=("$CROSSNER_RUN")
  done
done
crossner report "${runs[@]}" --output "$RUNS/report" --force
