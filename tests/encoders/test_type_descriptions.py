"""Entity types in words."""

import pytest

from crossner_cli.data.domains import known_domains
from crossner_cli.encoders.type_descriptions import describe_type, description_words


@pytest.mark.parametrize(
    ("entity_type", "words"),
    [
        ("politicalparty", "political party"),
        ("misc", "miscellaneous"),
        ("PER", "person"),
        ("Gene_or_gene_product", "gene or gene product"),
        ("Multi-tissue_structure", "multi tissue structure"),
        ("chemicalFormula", "chemical formula"),
        ("DNAStrand", "dna strand"),
        ("Gerät", "gerät"),
        ("类型", "类型"),
        ("??", "??"),
    ],
)
def test_a_type_is_read_as_words(entity_type, words):
    assert describe_type(entity_type) == words.split()


def test_every_known_type_is_described_in_real_words():
    words = description_words(name for domain in known_domains().values() for name in domain.types)
    assert "miscellaneous" in words and "programming" in words and "misc" not in words
    assert all(word.isalpha() and word == word.lower() for word in words)
    assert len(words) == len(set(words))
