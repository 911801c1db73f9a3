"""The pages that commands write: their order, and in a browser, at the width of a telephone."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner

from crossner_cli.data.domains import SAMPLES

WIDTH, HEIGHT = 360, 800
LONG = "Donaudampfschifffahrt" * 20  # has nowhere to break
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Measures each page as it is opened, then with everything unfolded; the contrast is that of WCAG.
FRAMES = """<!DOCTYPE html><body>{frames}<script>
const pen = document.createElement("canvas").getContext("2d", {{willReadFrequently: true}}), known = {{}};
const light = colour => known[colour] ??= (() => {{
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const parts = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255);
  const [red, green, blue] = parts.map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
  return .2126 * red + .7152 * green + .0722 * blue + .05;
}})();
const behind = each => {{
  const colour = each ? getComputedStyle(each).backgroundColor : "white";
  return each && colour === "rgba(0, 0, 0, 0)" ? behind(each.parentElement) : colour;
}};
const contrast = each => {{
  const [ink, paper] = [light(getComputedStyle(each).color), light(behind(each))];
  return Math.max(ink, paper) / Math.min(ink, paper);
}};
onload = () => {{
  const found = [...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const top = page.querySelector("article:not([hidden]), main p").getBoundingClientRect().top;
    page.querySelectorAll("details").forEach(each => each.open = true);
    const contrasts = [...page.querySelectorAll("body *:not(script)")].map(contrast);
    const paper = light(behind(page.body));
    return {{top, paper, beyond: root.scrollWidth - root.clientWidth, contrast: Math.min(...contrasts)}};
  }});
  console.log("measured");
  document.body.textContent = JSON.stringify(found);
}};
</script></body>"""


@pytest.fixture(scope="module")
def pages(chain: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of one model, of two, of words, types and names that are too long for a line, and of predictions."""
    place = tmp_path_factory.mktemp("pages")
    here = ("--run", shutil.copytree(chain, place / "run"), *QUICK)
    crossner("evaluate --fine-grained --model finetune --name one", *here)
    crossner("evaluate --fine-grained --model finetune --model joint-train --name two", *here)
    (place / "gold.txt").write_text(f"{LONG} B-{LONG}\nin O\nUlm B-place\n")
    (place / f"{LONG[:200]}.txt").write_text(f"{LONG} B-place\nin O\nUlm B-{LONG}\n")
    files = ("--gold", place / "gold.txt", "--predictions", place / f"{LONG[:200]}.txt")
    crossner("evaluate --fine-grained --name long", *files, "--run", place / "run")
    words = place / "words.conll"
    words.write_text((SAMPLES / "sample-target" / "test.txt").read_text() + f"\n{LONG} O\n")
    crossner("predict --format html --force", words, "--model", "finetune", *here, "--output", place / "tagged.html")
    return {name: place / "run" / name / "errors.html" for name in ("one", "two", "long")} | {
        "tagged": place / "tagged.html"
    }


def test_pages_have_the_width_of_their_window_and_fold_what_comes_before_the_sentences(pages: dict[str, Path]) -> None:
    for page in pages.values():
        assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page.read_text()
    one, two = pages["one"].read_text(), pages["two"].read_text()
    before, sentences = two.split("<h2>Sentences</h2>")
    assert before.count("<details>") == before.count("</details>") == 1 and "<details open" not in two
    assert re.sub(r"(?s)<(details|style)>.*?</\1>", "", before).count("<table") == 0 == sentences.count("<table")
    assert re.findall(r"<summary>(.*?)</summary>", one) == ["All tables"]
    assert "<h1>finetune and joint-train on sample-target test</h1>" in two
    assert re.search(
        r'<p class="verdict">(no measurable difference between|joint-train is .* better than) finetune', two
    )
    assert re.search(r"<h1>finetune on .*</h1>\n<p class=\"verdict\">F1 [\d.]+ ± [\d.]+ on sample-target test</p>", one)


@pytest.fixture(scope="module")
def browser() -> str:
    """A browser of the Chromium family, which can print a page after its scripts have run."""
    names = [os.environ["CROSSNER_BROWSER"]] if os.environ.get("CROSSNER_BROWSER") else BROWSERS
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"no browser is found as {', '.join(names)}; $CROSSNER_BROWSER may name one")
    return found


@pytest.mark.parametrize("is_dark", [False, True])
def test_a_browser_shows_every_page_on_a_telephone(
    pages: dict[str, Path], browser: str, tmp_path: Path, is_dark: bool
) -> None:
    measured = measure(browser, pages, tmp_path, is_dark)
    for name, found in measured.items():
        assert found["beyond"] == 0, f"{name} is wider than its window"
        assert name == "long" or found["top"] < HEIGHT, f"{name} shows no sentence at first sight"
        assert found["contrast"] >= 4.5 and (found["paper"] < 0.1) == is_dark, found


def measure(browser: str, pages: dict[str, Path], folder: Path, is_dark: bool) -> dict[str, Any]:
    frames = "".join(f'<iframe width="{WIDTH}" height="{HEIGHT}" src="{page}"></iframe>' for page in pages.values())
    (folder / "frames.html").write_text(FRAMES.format(frames=frames))
    command = [
        browser,
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--allow-file-access-from-files", "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"),
        f"--blink-settings=preferredColorScheme={0 if is_dark else 1}",
        *("--dump-dom", f"file://{folder / 'frames.html'}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    logged = re.findall(r'CONSOLE.*?\] "(.*?)", source', done.stderr)
    assert logged == ["measured"], done.stderr
    found = json.loads(html.unescape(re.findall(r"<body>(.*?)</body>", done.stdout, re.DOTALL)[0]))
    return dict(zip(pages, found, strict=True))
