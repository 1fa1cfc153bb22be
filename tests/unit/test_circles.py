"""Circles of imports among files are found, however the names are written, and nothing else is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from arrows.graph import Arrows
from arrows.python import Package
from arrows.rust import Crate
from arrows.typescript import Directory

Tree = dict[str, str]


def built(root: Path, tree: Tree) -> Path:
    """Writes a little tree of sources."""
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def circle(arrows: Arrows, root: Path) -> list[set[str]]:
    return [{str(file.relative_to(root)) for file in members} for members in arrows.components()]


def rust(root: Path, tree: Tree) -> list[set[str]]:
    return circle(Crate(built(root, tree)).arrows(), root)


def python(root: Path, tree: Tree) -> list[set[str]]:
    package = built(root / "package", tree)
    return circle(Package(package).arrows(), package)


def typescript(root: Path, tree: Tree) -> list[set[str]]:
    return circle(Directory(built(root, tree)).arrows(), root)


Check = Callable[[Path, Tree], list[set[str]]]

LIB = "mod a;\nmod b;\n"
B_USES_A = "pub struct B;\nfn f(_: crate::a::A) {}\n"

RUST_CIRCLES: dict[str, Tree] = {
    "use crate": {"lib.rs": LIB, "a.rs": "use crate::b::B;\npub struct A(B);", "b.rs": B_USES_A},
    "use super": {"lib.rs": LIB, "a.rs": "use super::b::B;\npub struct A(B);", "b.rs": B_USES_A},
    "a nested tree": {"lib.rs": LIB, "a.rs": "use crate::{b::{self, B}};\npub struct A(B);", "b.rs": B_USES_A},
    "an alias": {"lib.rs": LIB, "a.rs": "use crate::b::B as Other;\npub struct A(Other);", "b.rs": B_USES_A},
    "a glob": {"lib.rs": LIB, "a.rs": "use crate::b::*;\npub struct A(B);", "b.rs": B_USES_A},
    "a path in code": {"lib.rs": LIB, "a.rs": "pub struct A;\nfn f() { crate::b::g(A) }", "b.rs": B_USES_A + "pub fn g(_: crate::a::A) {}"},
    "a path from a module": {"lib.rs": LIB, "a.rs": "use crate::b;\npub struct A(b::B);", "b.rs": B_USES_A},
    "in a function": {"lib.rs": LIB, "a.rs": "pub struct A;\nfn f() { use crate::b::B; let _ = B; }", "b.rs": B_USES_A},
    "through a re-export": {
        "lib.rs": "mod a;\nmod b;\nmod c;\n",
        "a.rs": "pub struct A(crate::c::B);",
        "b.rs": B_USES_A,
        "c.rs": "pub use crate::b::B;",
    },
    "through a re-export of all": {
        "lib.rs": "mod a;\nmod b;\nmod c;\n",
        "a.rs": "pub struct A(crate::c::B);",
        "b.rs": B_USES_A,
        "c.rs": "pub(crate) use crate::b::*;",
    },
    "an inline module": {
        "lib.rs": LIB,
        "a.rs": "pub struct A;\nmod inner { fn f(_: super::super::b::B) {} }",
        "b.rs": B_USES_A,
    },
    "a constant function": {"lib.rs": LIB, "a.rs": "pub const fn a() -> u8 { crate::b::B }", "b.rs": "pub const B: u8 = crate::a::a();"},
    "a macro": {
        "lib.rs": "#[macro_use]\nmod a;\nmod b;\n",
        "a.rs": "macro_rules! m { () => {} }\npub struct A(crate::b::B);",
        "b.rs": "m!();\npub struct B;",
    },
}  # fmt: skip

FAMILIES: dict[str, Tree] = {
    # Parent and child: each uses a name of the other.
    "self": {
        "lib.rs": "mod a;",
        "a/mod.rs": "mod b;\nuse self::b::B;\npub struct A(B);",
        "a/b.rs": "use super::A;\npub struct B(Box<A>);",
    },
    "a path from a child": {
        "lib.rs": "mod a;",
        "a/mod.rs": "mod b;\npub struct A;\nfn f() { b::g() }",
        "a/b.rs": "use super::A;\npub fn g() { let _ = A; }",
    },
    "a re-export that is also used": {
        "lib.rs": "mod a;",
        "a/mod.rs": "mod b;\npub use b::B;\npub struct A(B);",
        "a/b.rs": "use super::A;\npub struct B(Box<A>);",
    },
}


@pytest.mark.parametrize("tree", RUST_CIRCLES.values(), ids=RUST_CIRCLES.keys())
def test_a_circle_of_rust_is_found(tree: Tree, tmp_path: Path) -> None:
    assert rust(tmp_path, tree) == [{"a.rs", "b.rs"}]


@pytest.mark.parametrize("tree", FAMILIES.values(), ids=FAMILIES.keys())
def test_a_circle_of_parent_and_child_is_found(tree: Tree, tmp_path: Path) -> None:
    assert rust(tmp_path, tree) == [{"a/mod.rs", "a/b.rs"}]


NO_RUST_CIRCLES: dict[str, Tree] = {
    "a parent that only declares and passes on": {
        "lib.rs": "mod a;\npub use a::{A, B};",
        "a/mod.rs": "mod b;\nmod c;\npub use self::b::B;\npub(crate) use self::c::A;",
        "a/b.rs": "use super::A;\npub struct B(A);",
        "a/c.rs": "pub struct A;",
    },
    "comments and strings": {
        "lib.rs": LIB,
        "a.rs": '//! crate::b::B\n/* use crate::b::B; /* */ crate::b::B */ pub struct A;\nfn f() { g("crate::b::B", r#"crate::b::B"#, \'"\', b\'"\'); }',
        "b.rs": B_USES_A,
    },
    "lifetimes": {"lib.rs": LIB, "a.rs": "pub struct A<'a>(&'a str);\nfn f<'b>(_: &'b str) {}", "b.rs": "struct B<'a>(crate::a::A<'a>);"},
    "a method of the same name": {"lib.rs": LIB, "a.rs": "pub struct A;\nfn f(x: u8) { x.b(); x.B }", "b.rs": B_USES_A},
    "other crates": {"lib.rs": LIB, "a.rs": "use other::b::B;\npub struct A(B);", "b.rs": B_USES_A},
    "a module of one's own with the name of a crate": {"lib.rs": LIB, "a.rs": "use b::B;\npub struct A(B);", "b.rs": B_USES_A},
}  # fmt: skip


@pytest.mark.parametrize("tree", NO_RUST_CIRCLES.values(), ids=NO_RUST_CIRCLES.keys())
def test_what_is_no_circle_of_rust_is_none(tree: Tree, tmp_path: Path) -> None:
    assert rust(tmp_path, tree) == []


B_PY = "from package.a import A\nclass B(A): pass\n"

PYTHON_CIRCLES: dict[str, Tree] = {
    "from . import": {"__init__.py": "", "a.py": "from . import b\nA = b.B", "b.py": B_PY},
    "from .b import": {"__init__.py": "", "a.py": "from .b import B\nclass A(B): pass", "b.py": B_PY},
    "import": {"__init__.py": "", "a.py": "import package.b\nclass A(package.b.B): pass", "b.py": B_PY},
    "import as": {"__init__.py": "", "a.py": "import package.b as other\nA = other.B", "b.py": B_PY},
    "in a function": {"__init__.py": "", "a.py": "A = 1\ndef f():\n    from .b import B\n    return B", "b.py": B_PY},
    "for types only": {
        "__init__.py": "",
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import B\nclass A:\n    b: 'list[B]'",
        "b.py": B_PY,
    },
    "all": {"__init__.py": "", "a.py": "from .b import *\nA = B", "b.py": B_PY},
    "through the package": {"__init__.py": "from .b import B", "a.py": "import package\nA = package.B", "b.py": B_PY},
    "a stub": {"__init__.py": "", "a.py": "from .b import B\nA = B", "b.pyi": B_PY},
}  # fmt: skip


@pytest.mark.parametrize("tree", PYTHON_CIRCLES.values(), ids=PYTHON_CIRCLES.keys())
def test_a_circle_of_python_is_found(tree: Tree, tmp_path: Path) -> None:
    (members,) = python(tmp_path, tree)
    assert members in ({"a.py", "b.py"}, {"a.py", "b.pyi"})


def test_a_circle_through_a_packages_own_code_is_found(tmp_path: Path) -> None:
    tree = {
        "__init__.py": "from .a import A\nDEFAULT = A()",
        "a.py": "import package\nclass A:\n    x = package.DEFAULT",
    }
    assert python(tmp_path, tree) == [{"__init__.py", "a.py"}]


def test_a_package_that_only_passes_on_makes_no_circle(tmp_path: Path) -> None:
    tree = {
        "__init__.py": "from .a import A\nfrom .b import B as B\n__all__ = ['A']",
        "a.py": '"""Not B."""\nfrom package import B\nclass A(B): pass',
        "b.py": "class B: pass",
    }
    assert python(tmp_path, tree) == []


B_TS = "import { A } from './a';\nexport class B extends A {}\n"

TYPESCRIPT_CIRCLES: dict[str, Tree] = {
    "import": {"a.ts": "import { B } from './b';\nexport class A { b = B; }", "b.ts": B_TS},
    "import type": {"a.ts": "import type { B } from './b';\nexport class A { b?: B; }", "b.ts": B_TS},
    "a type among values": {"a.ts": "import { f, type B as C } from './b';\nexport class A { b?: C; }", "b.ts": B_TS},
    "all": {"a.ts": "import * as b from './b';\nexport class A { b = b.B; }", "b.ts": B_TS},
    "an import in a type": {"a.ts": "export class A { b?: import('./b').B; }", "b.ts": B_TS},
    "require": {"a.ts": "export class A { b = require('./b'); }", "b.ts": B_TS},
    "in a template": {"a.ts": "import { B } from './b';\nexport class A { b = `x ${B.name} y`; }", "b.ts": B_TS},
    "for its effect": {"a.ts": "import './b';\nexport class A {}", "b.ts": B_TS},
    "with an ending": {"a.ts": "import { B } from './b.js';\nexport class A { b = B; }", "b.ts": B_TS},
    "through another": {"a.ts": "import { B } from './c';\nexport class A { b = B; }", "b.ts": B_TS, "c.ts": "export * from './b';"},
}  # fmt: skip


@pytest.mark.parametrize("tree", TYPESCRIPT_CIRCLES.values(), ids=TYPESCRIPT_CIRCLES.keys())
def test_a_circle_of_typescript_is_found(tree: Tree, tmp_path: Path) -> None:
    assert typescript(tmp_path, tree) == [{"a.ts", "b.ts"}]


NO_TYPESCRIPT_CIRCLES: dict[str, Tree] = {
    "an index that only passes on": {
        "index.ts": "export { A } from './a';\nexport type { B } from './b';",
        "a.ts": "import { B } from './index';\nexport class A { b = B; }",
        "b.ts": "export class B {}",
    },
    "imported to be passed on": {
        "index.ts": "import { A } from './a';\nexport { A };\nexport const c = 1;",
        "a.ts": "import { c } from './index';\nexport class A { c = c; }",
    },
    "comments, strings and regular expressions": {
        "a.ts": "// import { B } from './b';\n/** {@link B} */\nexport class A { b = \"import './b'\"; r = /import '.\\/b' [/]/u; }",
        "b.ts": B_TS,
    },
}  # fmt: skip


@pytest.mark.parametrize("tree", NO_TYPESCRIPT_CIRCLES.values(), ids=NO_TYPESCRIPT_CIRCLES.keys())
def test_what_is_no_circle_of_typescript_is_none(tree: Tree, tmp_path: Path) -> None:
    assert typescript(tmp_path, tree) == []


def test_a_circle_is_explained_by_the_names_that_make_it(tmp_path: Path) -> None:
    tree = {
        "lib.rs": "mod a;\nmod b;\nmod c;",
        "a.rs": "use crate::b::B;\npub struct A(B);",
        "b.rs": "use crate::c::C;\npub struct B(C);",
        "c.rs": "\n\npub struct C(crate::a::A);",
    }
    arrows = Crate(built(tmp_path, tree)).arrows()
    (members,) = arrows.components()
    assert list(arrows.explain(members, tmp_path)) == [
        "3 of them form a circle: a.rs, b.rs, c.rs",
        "  a.rs:1 uses `crate::b::B` of b.rs",
        "  b.rs:1 uses `crate::c::C` of c.rs",
        "  c.rs:3 uses `crate::a::A` of a.rs",
    ]


def between_folders(root: Path, tree: Tree) -> list[set[str]]:
    return circle(Crate(built(root, tree)).arrows().between_folders(root), root)


def test_folders_that_use_each_other_are_a_circle_although_their_files_are_none(tmp_path: Path) -> None:
    tree = {
        "lib.rs": "mod a;\nmod b;",
        "a/mod.rs": "mod one;\nmod two;",
        "a/one.rs": "pub struct One(crate::b::B);",
        "a/two.rs": "pub struct Two;",
        "b/mod.rs": "pub struct B(crate::a::two::Two);",
    }
    assert rust(tmp_path, tree) == []
    assert between_folders(tmp_path, tree) == [{"a", "b"}]


def test_a_file_and_its_own_modules_are_no_folders_that_use_each_other(tmp_path: Path) -> None:
    tree = {
        "lib.rs": "mod a;\nmod c;",
        "a.rs": "mod b;\npub struct A(b::B);",
        "a/b.rs": "use super::A;\npub struct B(Box<A>, crate::c::C);",
        "c.rs": "pub struct C;",
    }
    assert between_folders(tmp_path, tree) == [{"a.rs", "a/b.rs"}]
