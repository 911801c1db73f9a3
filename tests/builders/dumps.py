"""Small dumps of Wikipedia and DBpedia."""

from collections.abc import Iterable
from html import escape

from crossner_cli.corpus.triples import LABEL, SUBCLASS, TYPE

SITE = """<siteinfo><sitename>Test</sitename><dbname>testwiki</dbname><case>first-letter</case><namespaces>
<namespace key="-1" case="first-letter">Special</namespace>
<namespace key="0" case="first-letter" />
<namespace key="6" case="first-letter">{file}</namespace>
<namespace key="10" case="first-letter">Template</namespace>
<namespace key="14" case="first-letter">{category}</namespace>
</namespaces></siteinfo>
"""


NAMESPACES = {"Category": 14, "Kategorie": 14, "Template": 10}


def page(title: str, text: str, *, redirect: str | None = None) -> str:
    """A page as a dump has it; its namespace is told by its title."""
    namespace = NAMESPACES.get(title.partition(":")[0], 0)
    target = f'<redirect title="{escape(redirect)}" />' if redirect else ""
    return (
        f"<page>\n<title>{escape(title)}</title>\n<ns>{namespace}</ns>\n<id>7</id>\n{target}\n<revision><id>8</id>"
        f"<contributor><username>Title</username></contributor><comment>text</comment>"
        f'<text bytes="9" xml:space="preserve">{escape(text)}</text><sha1>x</sha1></revision>\n</page>\n'
    )


def dump(pages: Iterable[str], *, category: str = "Category", file: str = "File") -> bytes:
    """A dump of these pages."""
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n'
    return (head + SITE.format(category=category, file=file) + "".join(pages) + "</mediawiki>\n").encode()


ONTOLOGY, RESOURCE, OWL = (
    "http://dbpedia.org/ontology/",
    "http://dbpedia.org/resource/",
    "http://www.w3.org/2002/07/owl#",
)


def types(*pairs: str) -> str:
    """N-Triples of instance types, of pairs as ``Ada:Writer``."""
    lines = []
    for name, _, entity_type in (pair.partition(":") for pair in pairs):
        class_ = entity_type if entity_type.startswith("http") else ONTOLOGY + entity_type
        lines.append(f"<{RESOURCE}{name}> <{TYPE}> <{class_}> .\n")
    return "".join(lines)


def labels(*names: str, language: str = "@en") -> str:
    lines = (f'<{RESOURCE}{name.replace(" ", "_")}> <{LABEL}> "{name}"{language} .\n' for name in names)
    return "# started\n" + "".join(lines) + "# completed\n"


def ontology(*pairs: str) -> str:
    lines = [f"<{ONTOLOGY}{a}> <{SUBCLASS}> <{ONTOLOGY}{b}> .\n" for a, _, b in (pair.partition(":") for pair in pairs)]
    lines += [f"<{ONTOLOGY}{pair.partition(':')[0]}> <{TYPE}> <{OWL}Class> .\n" for pair in pairs]
    return (
        "".join(lines) + f'<{ONTOLOGY}Person> <{SUBCLASS}> <{OWL}Thing> .\n<{ONTOLOGY}Person> <{LABEL}> "person"@en .\n'
    )
