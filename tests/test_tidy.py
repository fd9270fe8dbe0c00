"""Rules of this repository: which part may depend on which, what no file may contain, and that documents are true."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from iolab.plan.experiment import load_experiment

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "lab/iolab"
LINE_MAX = 120

# The crates, and those that each may use. The instrument shares no runtime with its subject.
CRATES: dict[str, set[str]] = {
    "proto": set(),
    "sys": set(),
    "contract": {"proto", "sys"},
    "models": {"proto", "sys", "contract"},
    "load": {"proto", "sys", "contract"},
    "netpath": {"sys", "contract"},
    "engine": {"proto", "sys", "contract", "models", "load", "netpath"},
}
# The folders and single files of the engine, lowest first: each may use those before it.
ENGINE = (
    *("failure", "units", "wrap", "output", "spec", "result", "process", "export", "compat", "flags", "commands"),
    "main",
)
# Libraries for external text, and the crates that may use each. The contract's words are those of the command line, so
# it derives them for clap; rpc calls are JSON, which proto reads.
TEXT_FROM_OUTSIDE = {
    "serde": {"contract", "proto"},
    "serde_json": {"contract", "proto"},
    "schemars": {"contract"},
    "clap": {"contract", "engine"},
}

# The folders and single modules of the lab, lowest first: each may use those before it.
LAYERS = (
    *("errors", "wording", "lint", "work", "contract", "metrics", "plan", "results", "judge", "machine", "measure"),
    *("capacity", "report", "runs", "tables", "bundles", "api", "cli", "__main__"),
)
# Stored results are judged without an engine, and without anything to measure.
JUDGES = ("judge.results", "capacity.progress", "capacity.export", "report", "runs", "tables", "bundles")
MEASURES = ("measure", "machine", "capacity.prober", "cli", "api")

# A path with a part in capitals is a pattern, as in crates/models/src/NAME.rs.
PLACEHOLDER = re.compile(r"[*…]|\b[A-Z]+\.")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


def files(*patterns: str) -> list[Path]:
    """The project's own files, without those that builds and tests create."""
    made = {"target", ".venv", ".tools", ".git", "runs", "__pycache__", "corpus", "artifacts"}
    found = []
    for folder, below, names in os.walk(ROOT):
        # Not even entered: a build changes these folders during the walk.
        below[:] = [name for name in below if name not in made]
        found += [Path(folder, name) for name in names]
    # A star matches any characters, slashes too, and a pattern matches in every folder.
    anywhere = [pattern for each in patterns for pattern in (each, f"*/{each}")]
    return sorted(path for path in found if path.is_file() and fits(path, anywhere))


def fits(path: Path, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(str(path.relative_to(ROOT)), pattern) for pattern in patterns)


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_depends_only_on_those_below_it(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    used = set(manifest.get("dependencies", {}))
    assert used & set(CRATES) <= CRATES[crate]
    for library, users in TEXT_FROM_OUTSIDE.items():
        assert library not in used or crate in users, f"{library} is only for {', '.join(sorted(users))}"
    assert crate != "load" or not used & {"tokio", "hyper", "monoio"}, "the generator has no runtime"


def test_every_crate_of_the_workspace_has_its_place() -> None:
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    assert {member.removeprefix("crates/") for member in members} == set(CRATES)


ENGINE_FILES = files("crates/engine/src/*.rs")


@pytest.mark.parametrize("path", ENGINE_FILES, ids=ids(ENGINE_FILES))
def test_a_file_of_the_engine_uses_only_its_folder_and_those_below(path: Path) -> None:
    folder = path.relative_to(ROOT / "crates/engine/src").parts[0].removesuffix(".rs")
    assert folder in ENGINE, f"give {folder} its place in this test"
    used = set(re.findall(r"\bcrate::([a-z_]+)\b", re.sub(r"//.*", "", path.read_text())))
    assert used <= set(ENGINE[: ENGINE.index(folder) + 1])


def modules() -> dict[str, Path]:
    """Each module of the lab, such as `judge.stats`, and its file; a folder is the module of its __init__."""
    # The files in contestants/ are programs, not modules.
    found = (path for path in files("lab/iolab/*.py") if not path.is_relative_to(LAB / "contestants"))
    paths = {".".join(path.relative_to(LAB).with_suffix("").parts).removesuffix(".__init__"): path for path in found}
    # It names the functions for scripts, and imports them on first use.
    paths.pop("__init__")
    return paths


MODULES = modules()


@cache
def uses() -> dict[str, set[str]]:
    """Each module of the lab, and the modules it imports."""
    return {module: {module_of(name) for name in imports(path)} & set(MODULES) for module, path in MODULES.items()}


def module_of(name: str) -> str:
    """The module in a dotted name: its longest known prefix."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("iolab.") for name in names if name.startswith("iolab."))


def layer(module: str) -> int:
    folder = module.partition(".")[0]
    assert folder in LAYERS, f"give {folder} its place in this test, and in ARCHITECTURE.md"
    return LAYERS.index(folder)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_of_the_lab_imports_only_from_its_folder_and_those_below(module: str) -> None:
    assert all(layer(used) <= layer(module) for used in uses()[module])


def is_in(module: str, places: Sequence[str]) -> bool:
    return any(f"{module}.".startswith(f"{place}.") for place in places)


def test_what_judges_results_needs_no_engine() -> None:
    reached, found = set[str](), {each for each in MODULES if is_in(each, JUDGES)}
    while found:
        reached |= found
        found = set().union(*(uses()[each] for each in found)) - reached
    assert not {each for each in reached if is_in(each, MEASURES)}


@pytest.mark.parametrize("folder", sorted({each.partition(".")[0] for each in MODULES}))
def test_modules_of_a_folder_import_each_other_in_one_direction(folder: str) -> None:
    inside = {each: {used for used in uses()[each] if used.startswith(f"{folder}.")} for each in MODULES}
    graph = {each: used - {each} for each, used in inside.items() if each.startswith(f"{folder}.")}
    TopologicalSorter(graph).prepare()


def test_every_model_has_its_file_and_its_section_in_the_documents() -> None:
    listed = re.search(r"^models! \{([^}]*)\}", (ROOT / "crates/models/src/lib.rs").read_text(), re.MULTILINE)
    assert listed, "the list of models is the line `models! { … }`"
    models = re.findall(r"\w+", listed[1])
    assert models
    documented = (ROOT / "docs/models.md").read_text()
    for model in models:
        places = (ROOT / f"crates/models/src/{model}.rs", ROOT / f"crates/models/src/{model}/mod.rs")
        assert any(place.is_file() for place in places), model
        assert re.search(rf"^## `?{model}`?\b", documented, re.MULTILINE), f"docs/models.md has no section {model}"


EXPERIMENTS = sorted((LAB / "experiments").glob("*.toml"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=ids(EXPERIMENTS))
def test_every_experiment_loads_and_is_found_by_its_name(path: Path) -> None:
    plan = load_experiment(path)
    assert plan.name == path.stem
    assert plan.quick().duration_s <= plan.duration_s
    assert (ROOT / "experiments" / path.name).samefile(path)


CODE = files("*.py", "*.rs", "*.toml", "Makefile", ".ci/run", "iolab.data/scripts/*")


@pytest.mark.parametrize("path", CODE, ids=ids(CODE))
def test_code_has_no_long_line_and_no_forbidden_word(path: Path) -> None:
    text = path.read_text()
    prose = path.suffix == ".toml"
    long = [number for number, line in enumerate(text.splitlines(), 1) if len(line) > LINE_MAX and not prose]
    assert not long, f"lines {long} are longer than {LINE_MAX}"
    # Written in parts, so that this file does not contain them.
    for word in ("shell" + "=True", "os." + "system(", "TO" + "DO", "FIX" + "ME", "X" * 3):
        assert word not in text, word


# Not Cargo.lock: Cargo writes the address of its index there, the same everywhere.
TEXT = files("*.py", "*.rs", "*.toml", "*.md", "*.txt", "*.json", "*.html", "*.css", "Makefile", ".ci/run")


@pytest.mark.parametrize("path", TEXT, ids=ids(TEXT))
def test_no_file_names_the_address_of_a_package_registry(path: Path) -> None:
    hosts = re.findall(
        r"\b(?:pypi|pythonhosted|crates|npmjs|debian|jsdelivr|unpkg)\.(?:org|io|com|net)\b", path.read_text()
    )
    assert not hosts


RUST = files("*.rs")


@pytest.mark.parametrize("path", RUST, ids=ids(RUST))
def test_only_the_door_to_the_kernel_is_unsafe(path: Path) -> None:
    code = re.sub(r"//.*", "", path.read_text()).replace("forbid(unsafe_code)", "")
    counts_allocations = "tests" in path.parts and "#[global_allocator]" in code
    if path.is_relative_to(ROOT / "crates/sys") or counts_allocations:
        return
    assert not re.search(r"\bunsafe\b", code)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_name_only_what_is_there(name: str) -> None:
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"target"}
    named = re.findall(r"`([\w./*-]+)`|\]\(([\w./-]+)", (ROOT / name).read_text())
    for word in (inside or target for inside, target in named):
        top, slash, _ = word.partition("/")
        if slash and top in tops and not PLACEHOLDER.search(word):
            assert (ROOT / word).exists(), f"{name} names {word}, which is not there"


PAGES = files("README.md", "METHODOLOGY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md")


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, with hyphens for spaces."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_a_link_leads_to_a_page_and_a_section_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, section = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), f"{target}: there is no such file"
        assert not section or section in sections(linked), f"{target}: there is no such section"


def test_requirements_are_pinned_by_hash_alone() -> None:
    # A name with its version and perhaps a marker, or a hash: no room for an address or an option.
    pinned = re.compile(r"[\w.-]+==[\w.]+(?: ; [\w<>=' .!]+)? \\")
    hashed = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        lines = path.read_text().splitlines()
        assert any(hashed.fullmatch(line) for line in lines)
        assert [line for line in lines if not pinned.fullmatch(line) and not hashed.fullmatch(line)] == []
