"""The layer table, walked over every import: a lower layer never imports a higher one, siblings keep apart."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from functools import cache
from pathlib import Path

import pytest

import tokenmargin
from tests import measure_tree

ROOT = Path(tokenmargin.__file__).parent

#: What each part of the package may import of the rest. `attention` and `margin` never see each other, and `theory`,
#: where they meet, sees no training.
ALLOWED: dict[str, set[str]] = {
    "_lazy": set(),
    "_notebook": set(),
    "_memory": set(),
    "_types": set(),
    "errors": set(),
    "_checks": {"errors", "_sentences", "_memory"},
    "_module": {"_checks"},
    "_mapped": {"errors"},
    "norms": {"errors", "_checks"},
    "_progress": {"errors"},
    "_rename": set(),
    "_atomic": {"errors", "_rename"},
    "_arrays": {"errors", "_atomic"},
    "_precision": set(),
    "_isometry": set(),
    "_rationals": set(),
    "losses": {"_types", "errors", "_checks", "_module"},
    "_provenance": set(),
    "_fingerprint": {"errors", "_provenance"},
    "_archive": {"errors", "_atomic", "_arrays"},
    "_safetensors": {"errors"},
    "_softmax": set(),
    "_sentences": set(),
    "_intervals": set(),
    "_plain_json": {"_atomic"},
    "verify": {"errors"},
    "data": {
        "_notebook",
        "_types",
        "errors",
        "_checks",
        "_arrays",
        "_isometry",
        "_sentences",
        "_softmax",
        "_progress",
        "plots",
    },
    "sources": {"_notebook", "_types", "errors", "_checks", "_progress", "_atomic", "_sentences", "_provenance"},
    "text": {
        "_notebook",
        "_types",
        "errors",
        "_checks",
        "_arrays",
        "_progress",
        "_mapped",
        "data",
        "sources",
        "_sentences",
    },
    "attention": {
        "_notebook",
        "plots",
        "_types",
        "errors",
        "_checks",
        "_module",
        "_progress",
        "_precision",
        "norms",
        "losses",
        "data",
    },
    "models": {"_types", "errors", "_checks", "_module", "losses"},
    "training": {
        "_notebook",
        "plots",
        "_types",
        "_memory",
        "errors",
        "_checks",
        "_progress",
        "_mapped",
        "_atomic",
        "_archive",
        "_fingerprint",
        "_provenance",
        "_precision",
        "losses",
        "data",
        "models",
    },
    "first_step": {"_notebook", "_types", "errors", "_checks", "data"},
    "margin": {
        "_notebook",
        "plots",
        "_types",
        "errors",
        "_checks",
        "_sentences",
        "_progress",
        "_isometry",
        "_rationals",
        "norms",
        "data",
    },
    "theory": {
        "_notebook",
        "plots",
        "_rationals",
        "_types",
        "errors",
        "_checks",
        "_arrays",
        "_progress",
        "_mapped",
        "_provenance",
        "_atomic",
        "_precision",
        "verify",
        "norms",
        "data",
        "attention",
        "first_step",
        "margin",
    },
    "classify": {
        "_notebook",
        "_types",
        "_memory",
        "errors",
        "_sentences",
        "_intervals",
        "_plain_json",
        "_checks",
        "_progress",
        "_atomic",
        "_safetensors",
        "_archive",
        "_fingerprint",
        "_precision",
        "_provenance",
        "data",
        "sources",
        "text",
        "models",
        "training",
    },
    "comparison": {"_notebook", "errors", "_checks", "_sentences", "_progress", "_provenance", "data", "classify"},
    "parallel": {
        "_types",
        "errors",
        "_sentences",
        "_checks",
        "_progress",
        "_mapped",
        "_arrays",
        "_rename",
        "_atomic",
        "_archive",
        "_fingerprint",
        "_precision",
        "_provenance",
        "_intervals",
        "_notebook",
        "attention",
        "plots",
        "data",
        "sources",
        "text",
        "models",
        "training",
        "first_step",
    },
    "probe": {
        "_notebook",
        "_types",
        "errors",
        "_softmax",
        "_intervals",
        "_checks",
        "_arrays",
        "_progress",
        "_atomic",
        "_safetensors",
        "data",
        "text",
        "models",
        "training",
        "margin",
        "classify",
    },
    "plots": {"errors", "_atomic"},
    "experiments": {
        "_notebook",
        "_types",
        "errors",
        "_checks",
        "_plain_json",
        "_arrays",
        "_progress",
        "_mapped",
        "_atomic",
        "_archive",
        "_fingerprint",
        "_precision",
        "_provenance",
        "data",
        "training",
        "theory",
        "plots",
    },
    "papers": {
        "_notebook",
        "_types",
        "errors",
        "_intervals",
        "_checks",
        "_module",
        "_arrays",
        "_progress",
        "_mapped",
        "_fingerprint",
        "_precision",
        "_rationals",
        "data",
        "sources",
        "text",
        "attention",
        "models",
        "training",
        "first_step",
        "margin",
        "theory",
        "probe",
        "plots",
        "_isometry",
        "norms",
        "experiments",
    },
    "text_fit": {"errors", "_checks", "_progress", "classify", "plots", "report", "text"},
    "report": {
        "_notebook",
        "errors",
        "_sentences",
        "_atomic",
        "_rename",
        "theory",
        "experiments",
        "classify",
        "comparison",
        "probe",
    },
    "cli": {
        "__init__",
        "errors",
        "_progress",
        "_rename",
        "_atomic",
        "_provenance",
        "_plain_json",
        "verify",
        "sources",
        "text",
        "theory",
        "classify",
        "comparison",
        "probe",
        "experiments",
        "parallel",
        "report",
        "training",
    },
    "__main__": {"cli"},
    "__init__": {
        "losses",
        "norms",
        "data",
        "attention",
        "models",
        "training",
        "first_step",
        "margin",
        "theory",
        "classify",
        "parallel",
        "text_fit",
    },
}

#: Third parties that only one file may import.
BEHIND_ONE_FILE = {
    "daqp": "margin/_daqp.py",
    "argparse": "cli/_parse.py",
    "rich": "cli/_console.py",
    "jinja2": "report/_render.py",
    "Stemmer": "text/_lexicon.py",
    "datasets": "sources/locate.py",
    "safetensors": "_safetensors.py",
    "distributed": "parallel/cluster.py",
    "PIL": "papers/maxmargin/vit/cifar10.py",
    "torch": "probe/torch_models.py",
    "tokenizers": "probe/text_encoder.py",
    "shap": "comparison/shap_explainers.py",
    "lime": "comparison/lime_explainer.py",
    "cvxpy": "papers/transformers_as_svms/figures/_peer_solver.py",
}

FILES = sorted(ROOT.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imports_of(path: Path) -> frozenset[str]:
    names = set()
    for node in ast.walk(measure_tree.tree(measure_tree.module_name(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return frozenset(names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path):
    own = part_of(path)
    assert own in ALLOWED, f"{own} is not in the layer table: add it with what it may import"
    for name in imports_of(path):
        if name == "tokenmargin" or name.startswith("tokenmargin."):
            target = name.split(".")[1] if "." in name else "__init__"
            is_init = path.name == "__init__.py" and target == "_lazy"
            assert target == own or is_init or target in ALLOWED[own], f"{path.name} ({own}) may not import {name}"


#: What solves a quadratic program: rows and right-hand sides, no tokens.
SOLVER = (
    "solution",
    "least_norm",
    "least_norm_solution",
    "_least_norm_batch",
    "_float_verdict",
    "_exact_verdict",
    "exact_shortest",
    "_given_rows",
    "_daqp",
    "_constraint_generation",
    "_scaled_rows",
    "_other_norms",
    "_entry_norms",
    "_matrix_norms",
    "_factored_newton",
    "_face",
)


@pytest.mark.parametrize("part", SOLVER)
def test_the_least_norm_solver_never_sees_a_token(part):
    names = {name for name in imports_of(ROOT / "margin" / f"{part}.py") if name.startswith("tokenmargin.")}
    own = {f"tokenmargin.margin.{other}" for other in SOLVER}
    tools = ("_types", "_isometry", "_progress", "_checks", "_rationals", "_notebook", "errors", "norms")
    assert names <= own | {f"tokenmargin.{tool}" for tool in tools}


@pytest.mark.parametrize("package", BEHIND_ONE_FILE)
def test_third_parties_stay_behind_one_file(package):
    users = [str(p.relative_to(ROOT)) for p in FILES if any(n.split(".")[0] == package for n in imports_of(p))]
    assert users == [BEHIND_ONE_FILE[package]]


def test_onnx_is_read_in_one_file_and_written_in_one():
    users = {str(p.relative_to(ROOT)) for p in FILES if any(n.split(".")[0] == "onnx" for n in imports_of(p))}
    assert users == {"probe/onnx_weights.py", "classify/onnx_model.py"}


def test_arrow_reads_and_writes_tables_and_numbers_words_and_nothing_else():
    users = {str(p.relative_to(ROOT)) for p in FILES if any(n.split(".")[0] == "pyarrow" for n in imports_of(p))}
    assert users == {"sources/parquet.py", "text/_words.py"}


def test_matplotlib_stays_in_plots():
    users = {part_of(p) for p in FILES if any(n.split(".")[0] == "matplotlib" for n in imports_of(p))}
    assert users == {"plots"}


def test_import_is_light():
    heavy = [
        "jax",
        "equinox",
        "numpy",
        "scipy",
        "daqp",
        "clarabel",
        "matplotlib",
        "pandas",
        "pyarrow",
        "torch",
        "sklearn",
        "scipy.stats",
        "rich",
        "diffrax",
        "Stemmer",
        "jinja2",
        "distributed",
    ]
    heavy += ["tokenmargin.papers", "tokenmargin.papers.maxmargin", "tokenmargin.papers.embeddings"]
    code = f"import sys, tokenmargin; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_public_names_exist_and_are_documented():
    for name in tokenmargin.__all__:
        thing = getattr(tokenmargin, name)
        assert thing.__doc__, f"{name} has no docstring"


# --- the tree in numbers ----------------------------------------------------------------------------------------------


def test_no_module_imports_itself_round_a_circle():
    assert measure_tree.cycles() == []


def test_files_and_functions_stay_short():
    assert measure_tree.longest_file()[0] <= 350, measure_tree.longest_file()
    assert measure_tree.longest_body()[0] <= 60, measure_tree.longest_body()


def test_few_helpers_have_one_user_and_none_has_none():
    assert measure_tree.unused_helpers() == []
    assert len(measure_tree.single_user_helpers()) <= 0.1 * len(measure_tree.MODULES)


def test_every_claim_is_found_by_the_name_of_its_file():
    found, total = measure_tree.claims_found_by_name()
    assert found == total


def test_words_of_a_file_name():
    assert measure_tree.words_of("thm2_3_convergence") == {"thm2", "thm3"}
    assert measure_tree.words_of("thm5_lemma14_18_selection") == {"thm5", "lemma14", "lemma18"}
    assert measure_tree.words_of("assumption_c") == set()


def test_tests_are_at_least_half_as_long_as_what_they_test():
    assert measure_tree.measure().tests_over_src >= 0.5


def test_the_document_shows_the_numbers():
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    for what, number in measure_tree.measure().rows():
        assert f"| {what} | {number} |" in page, f"{what}: {number}; see python -m tests.measure_tree"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_leading_underscore_is_private_to_its_package(path):
    """`a/_x.py` is named by modules below `a/` alone; what `a/__init__.py` names of it is public."""
    for name in imports_of(path):
        *package, leaf = name.split(".")
        if package[:1] == ["tokenmargin"] and leaf.startswith("_") and len(package) > 1:
            assert ROOT.joinpath(*package[1:]) in path.parents, f"{path.name} imports {name}"


def test_the_surface_can_be_held_in_the_head():
    import tokenmargin as tm

    spaces = {name for name in tm.__all__ if isinstance(getattr(tm, name), types.ModuleType)}
    assert 35 <= len(set(tm.__all__) - spaces) <= 56
    assert {
        "attention",
        "errors",
        "first_step",
        "losses",
        "margin",
        "models",
        "norms",
        "synthetic",
        "theory",
        "training",
    } <= spaces
    for name in spaces:
        space = getattr(tm, name)
        assert space.__all__, name
        assert space.__doc__.strip(), name
        for member in space.__all__:
            assert hasattr(space, member), f"{name}.{member}"


def test_what_only_its_own_package_uses_has_a_leading_underscore():
    who, reached = measure_tree.users(), measure_tree.entries()
    for name, users in who.items():
        package, _, leaf = name.rpartition(".")
        if package and name not in reached and not leaf.startswith("_"):
            assert any(not user.startswith(f"{package}.") for user in users), f"{name} is private to {package}"
