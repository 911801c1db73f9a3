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
