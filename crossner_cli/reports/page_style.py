"""Looks and behaviour of the page of ``evaluate --fine-grained``: constant text, into which no data goes.

Colours are those of Okabe and Ito, which colour-blind eyes tell apart; each kind of error also has its own line and its
name beside the words. The page follows the light or dark setting of its reader.
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --faint: #666; --rule: #ccc; --bar: #0072b2;
  --missed: #b34700; --spurious: #a66f00; --boundary: #0072b2; --type: #a8447e; --both: #5c3d99; --correct: #007a59; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e8e8e8; --faint: #a0a0a0; --rule: #444;
  --bar: #56b4e9; --missed: #ff8c42; --spurious: #e69f00; --boundary: #56b4e9; --type: #e08dbc; --both: #b79cf0;
  --correct: #2fc89b; } }
body { margin: 0 auto; max-width: 76rem; padding: 1rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.faint, figcaption, th { color: var(--faint); }
.charts { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; }
figure { margin: 0; max-width: 100%; overflow-x: auto; } figcaption { font-weight: 600; margin: .5rem 0; }
svg text { fill: var(--ink); font-size: 12px; } .bar, .cell, .diagonal { fill: var(--bar); }
.diagonal, .cell { stroke: var(--rule); } .diagonal { fill: var(--correct); }
.whisker { stroke: var(--ink); stroke-width: 2; fill: none; }
.filters { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--rule); padding: .6rem 0;
  display: flex; flex-wrap: wrap; gap: .5rem 1.2rem; align-items: center; z-index: 1; }
select, input { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid
  var(--faint); border-radius: 4px; padding: .15rem .4rem; max-width: 18rem; }
article { border-bottom: 1px solid var(--rule); padding: .6rem 0; content-visibility: auto;
  contain-intrinsic-size: 5rem; }
article p { margin: .1rem 0 .1rem 6rem; overflow-wrap: anywhere; line-height: 1.9; }
article p > b:first-child { display: inline-block; width: 5.5rem; margin-left: -6rem; color: var(--faint);
  font-weight: 400; font-size: .85rem; }
mark { background: none; color: inherit; border-bottom: 3px solid var(--correct); unicode-bidi: isolate;
  padding: 0 1px; }
mark small { color: var(--faint); margin-left: .3em; }
.missed { border-bottom: 3px dashed var(--missed); } .spurious { border-bottom: 3px dotted var(--spurious); }
.boundary { border-bottom: 4px double var(--boundary); } .type { border-bottom: 3px solid var(--type); }
.boundary_and_type { border-bottom: 4px double var(--both); }
mark:not(.correct) { font-weight: 600; } mark:not(.correct) small { color: var(--ink); font-weight: 400; }
table { border-collapse: collapse; margin: .5rem 0; display: block; overflow-x: auto; }
th, td { text-align: right; padding: .15rem .7rem; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; }
th { font-weight: 600; } .words { text-align: left; } tfoot td { font-weight: 600; }
details > summary { cursor: pointer; font-weight: 600; margin: .7rem 0; }
[hidden] { display: none !important; }
"""

SCRIPT = """
(function () {
  "use strict";
  var get = function (name) { return document.getElementById(name); };
  var model = get("model"), kind = get("kind"), type = get("entity-type"), words = get("words"), count = get("count");
  var sections = Array.prototype.slice.call(document.querySelectorAll("[data-model]"));
  var articles = Array.prototype.slice.call(document.querySelectorAll("article"));
  var fits = function (token) {
    var parts = token.split(".");
    var isError = kind.value === "errors" && parts[0] !== "correct";
    var fitsKind = kind.value === "any" || parts[0] === kind.value || isError;
    return fitsKind && (type.value === "any" || parts[1] === type.value);
  };
  var show = function () {
    var wanted = words.value.toLowerCase(), shown = 0, total = 0;
    sections.forEach(function (section) { section.hidden = section.dataset.model !== model.value; });
    articles.forEach(function (article) {
      var ours = article.parentNode.dataset.model === model.value;
      var everything = kind.value === "any" && type.value === "any";
      var tokens = article.dataset.spans ? article.dataset.spans.split(" ") : [];
      var fitting = ours && (everything || tokens.some(fits));
      fitting = fitting && (!wanted || article.dataset.words.toLowerCase().indexOf(wanted) !== -1);
      article.hidden = !fitting;
      total += ours ? 1 : 0;
      shown += fitting ? 1 : 0;
    });
    count.textContent = shown + " of " + total + " sentences";
  };
  [model, kind, type].forEach(function (field) { field.addEventListener("change", show); });
  words.addEventListener("input", show);
  get("filters").hidden = false;
  show();
})();
"""
