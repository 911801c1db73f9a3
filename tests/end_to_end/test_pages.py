"""The page of errors: what comes first, and what is folded."""

import re
import shutil

from builders.commands import QUICK, crossner


def test_a_page_has_the_width_of_its_window_and_folds_what_comes_before_the_sentences(chain, tmp_path):
    here = ("--run", shutil.copytree(chain, tmp_path / "run"), *QUICK)
    crossner("evaluate --fine-grained --model finetune --name one", *here)
    crossner("evaluate --fine-grained --model finetune --model joint-train --name two", *here)
    one, two = ((tmp_path / "run" / name / "errors.html").read_text() for name in ("one", "two"))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in one
    before, sentences = two.split("<h2>Sentences</h2>")
    assert before.count("<details>") == before.count("</details>") == 1 and "<details open" not in two
    assert re.sub(r"(?s)<(details|style)>.*?</\1>", "", before).count("<table") == 0 == sentences.count("<table")
    assert re.findall(r"<summary>(.*?)</summary>", one) == ["All tables"]
    assert "<h1>finetune and joint-train on sample-target test</h1>" in two
    assert re.search(
        r'<p class="verdict">(no measurable difference between|joint-train is .* better than) finetune', two
    )
    assert re.search(r"<h1>finetune on .*</h1>\n<p class=\"verdict\">F1 [\d.]+ ± [\d.]+ on sample-target test</p>", one)
