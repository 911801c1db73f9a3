"""Methods of other packages are found by their entry points, listed, trained and loaded."""

from pathlib import Path

import pytest
from builders.commands import QUICK, crossner

from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, method_names, name_of_method
from crossner_cli.reports.methods import describe_methods

TAGGER = '''"""Own tagger: half the scores of linear.

Paper: none.
Differs: in all.
"""

from dataclasses import dataclass

from crossner_cli.layers.settings import setting
from crossner_cli.methods.linear import LinearTagger


class OwnTagger(LinearTagger):
    @dataclass(frozen=True)
    class Hyperparameters(LinearTagger.Hyperparameters):
        factor: float = setting(0.5, "Factor of the scores.", minimum=0.1)

    def scores(self, batch):
        return self.hyper.factor * super().scores(batch)
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that offers a method, one that is missing, and one that is not a method."""
    (tmp_path / "own_package.py").write_text(TAGGER)
    record = tmp_path / "own_package-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(
        "[crossner.methods]\nown = own_package:OwnTagger\nlost = own_package:Lost\nodd = pathlib:Path\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_method_of_another_package_is_listed_trained_and_loaded(package: Path, tiny_encoder_folder: Path) -> None:
    assert "own" in method_names() and name_of_method(find_method("own")) == "own"
    (facts,) = describe_methods(["own"])
    assert (facts.title, facts.reads) == ("Own tagger: half the scores of linear.", "subwords")
    assert facts.settings == {"legal": True, "dropout": 0.1, "factor": 0.5}
    here = ("--run", package / "run", *QUICK)
    crossner("prepare-data --source sample-source --target sample-target --train-limit 8 --run", package / "run")
    train = "finetune --method own --set factor=0.25 --max-steps 2 --encoder"
    assert crossner(train, tiny_encoder_folder, *here)["result"]["settings"]["factor"] == 0.25
    assert crossner("evaluate --split dev", *here)["result"]["models"]["finetune"]["support"] > 0


def test_what_is_not_a_method_or_cannot_be_imported_is_a_known_problem(package: Path) -> None:
    with pytest.raises(CrossNERError, match="'lost' cannot be loaded from own_package"):
        find_method("lost")
    with pytest.raises(CrossNERError, match="pathlib:Path is not a method"):
        find_method("odd")
