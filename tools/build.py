"""Builds the named parts, or all: `python3 tools/build.py worker python`. It skips parts that are up to date.

These are debug builds for tests. CONTRIBUTING.md describes how packages are built with maturin and npm. Every
cargo command builds the whole workspace, because cargo chooses the features of a dependency by the set of
crates that it builds together. Building one member alone would compile all its dependencies again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from parts import BUILT, EVERYTHING, PACKAGE, PARTS, ROOT, STAGE, STAMPS, VENV, everything, named

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
TYPES = TARGET / "napi"
CARGO_BUILDS = ("node", "worker", "embedded", "command", "stage", "python")

PACKAGE_SOURCES = ROOT / "bindings-python" / "python"

# Pinned, because the default version depends on the installed version of Maven.
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command. End the build if it fails."""
    try:
        subprocess.run(list(map(str, command)), cwd=cwd, check=True, env={**os.environ, **(env or {})})
    except FileNotFoundError:
        raise SystemExit(f"`{command[0]}` is not installed; see tools/check_toolchains.sh") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"failed: {' '.join(map(str, command))}") from error


def install(source: Path, destination: Path) -> None:
    """Replace a file that a running process might have open."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    fresh = destination.with_name(destination.name + ".new")
    shutil.copy2(source, fresh)
    fresh.replace(destination)


def library(name: str) -> Path:
    """Return the path of a shared library that cargo has built on this system."""
    found = [TARGET / f"lib{name}{suffix}" for suffix in (".so", ".dylib")]
    return next((path for path in found if path.exists()), found[0])


def environment(directory: Path, requirements: Path) -> None:
    """Create a virtual environment with these packages. It imports the Python binding from its source
    directory.
    """
    run("python3", "-m", "venv", directory)
    pip = (directory / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "-r", requirements)
    for packages in (directory / "lib").glob("python3*/site-packages"):
        (packages / "pyzklock.pth").write_text(f"{PACKAGE_SOURCES}\n")


def venv() -> None:
    """Build the virtual environment for tests and lints."""
    environment(VENV, ROOT / "tests" / "requirements.txt")


def stage() -> None:
    """Build the parts that only the demo needs: a small environment and the Rust program."""
    environment(STAGE, ROOT / "tests" / "demo" / "requirements.txt")
    install(TARGET / "zklock-demo-job", BUILT / "zklock-demo-job")


def worker() -> None:
    """Copy the Rust worker out of cargo's build directory."""
    install(TARGET / "zklock-worker", BUILT / "zklock-worker")
    install(TARGET / "ends", BUILT / "ends")
    install(TARGET / "slots", BUILT / "slots")


# Cargo distinguishes crates of two workspaces by their settings, not by their location. This setting keeps
# the crates of the last release separate from the current ones.
OLD_CRATES = ("zklock", "zklock-transport", "zklock-worker", "async-io", "async-net")
APART = "codegen-units=15"


def previous() -> None:
    """Build the Rust worker of the last release.

    It uses the dependencies of the current release, so that cargo shares the compiled crates. Only the worker
    of the old workspace is compiled, but with the features of the whole workspace. With other features, cargo
    could share nothing.
    """
    (product,), part = PARTS["previous"].products, PARTS["previous"]
    assert part.commit is not None
    tree = STAMPS / "previous"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = tree / "sources.tar"
    run("git", "archive", "-o", archive, named(part.commit))
    # Set new times, because cargo assumes that sources older than a build are already built.
    run("tar", "--touch", "-xf", archive, "-C", tree)
    share = {"CARGO_BUILD_BUILD_DIR": str(TARGET.parent), "CARGO_TARGET_DIR": str(tree / "target")}
    worker = ("--workspace", "--bin", "zklock-worker")
    apart = [part for name in OLD_CRATES for part in ("--config", f"profile.dev.package.{name}.{APART}")]
    run("cargo", "build", "--locked", "--quiet", *worker, *apart, cwd=tree, env=share)
    install(tree / "target" / "debug" / "zklock-worker", product)


def embedded() -> None:
    """Copy the embedded server program."""
    install(TARGET / "zklock-test-server", BUILT / "zklock-test-server")


def command() -> None:
    """Copy the `zklock` command."""
    install(TARGET / "zklock", BUILT / "zklock")


def python() -> None:
    """Install the Python binding in place, for use from the source directory."""
    (product,) = PARTS["python"].products
    install(library("_zklock"), product)
    for packages in (VENV / "lib").glob("python3*/site-packages"):
        # An installed copy would hide the sources.
        if (packages / "zklock").exists():
            run(VENV / "bin" / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "pyzklock")


def npm() -> None:
    """Install the tools that build and lint the Node package."""
    run("npm", "ci", "--no-audit", "--no-fund", cwd=PACKAGE)


def node() -> None:
    """Build the Node package: its addon and its JavaScript."""
    run("node", "describe.mjs", TYPES, library("zklock_node"), cwd=PACKAGE)
    # The compiler does not delete the output of removed sources, which would then be packed.
    shutil.rmtree(PACKAGE / "dist", ignore_errors=True)
    run("npm", "run", "--silent", "build:types", cwd=PACKAGE)


def packages() -> None:
    """Pack the packages for users around the debug builds."""
    run(VENV / "bin" / "python", "tools/dist.py", "--debug")


def jars() -> None:
    """Copy the jars of the servers and the Java peers into one directory, so that a classpath is `lib/*`."""
    directory = BUILT / "lib"
    shutil.rmtree(directory, ignore_errors=True)
    maven = ("mvn", "-B", "-q", "-f", str(ROOT / "tests" / "pom.xml"))
    run(*maven, COPY_DEPENDENCIES, f"-DoutputDirectory={directory}", "-DincludeScope=runtime")


def java() -> None:
    """Build the worker that uses Curator."""
    classes = BUILT / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    sources = sorted((ROOT / "tests" / "peers" / "java").rglob("*.java"))
    run(
        *("javac", "-Xlint:all,-processing,-classfile", "-Werror", "-proc:none", "--release", "17"),
        *("-d", str(classes), "-cp", f"{BUILT / 'lib'}/*"),
        *sources,
    )


def go() -> None:
    """Build the worker that uses go-zookeeper."""
    go_program(ROOT / "tests" / "peers" / "go", BUILT / "go-worker")


def porcupine() -> None:
    """Build the external judge of histories."""
    go_program(ROOT / "tests" / "porcupine", BUILT / "porcupine")


def go_program(source: Path, product: Path) -> None:
    """Build a Go program."""
    BUILT.mkdir(exist_ok=True)
    run("go", "vet", "./...", cwd=source)
    run("go", "build", "-trimpath", "-buildvcs=false", "-o", product, ".", cwd=source)


def bundlers() -> None:
    """Install the test runners and bundlers for programs on Node."""
    run("npm", "ci", "--no-audit", "--no-fund", cwd=ROOT / "tests" / "consumers" / "node")


FONTS = """<fontconfig>
  <dir>{tree}/usr/share/fonts</dir>
  <cachedir>{tree}/cache</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
"""


def unpack(tree: Path, *names: str) -> None:
    """Unpack Debian packages into a directory, with the libraries that this machine lacks."""
    arrived, lists = tree / "packages", tree / "lists"
    shutil.rmtree(tree, ignore_errors=True)
    for directory in (arrived, lists):
        (directory / "partial").mkdir(parents=True)
    # Use separate package lists that are current, because the archive has no older versions. The default lock
    # and download user need root.
    options = (
        *(f"Dir::State::Lists={lists}", f"Dir::Cache::Archives={arrived}"),
        *("Debug::NoLocking=1", "APT::Sandbox::User="),
    )
    apt = ("apt-get", "-qq", *(f"-o{option}" for option in options))
    run(*apt, "update")
    run(*apt, "install", "--yes", "--download-only", "--reinstall", "--no-install-recommends", *names)
    for package in sorted(arrived.glob("*.deb")):
        run("dpkg-deb", "-x", package, tree)
    for directory in (arrived, lists):
        shutil.rmtree(directory)


def chromium() -> None:
    """Unpack Debian's headless browser and fonts."""
    tree = STAMPS / "chromium"
    unpack(tree, "chromium-headless-shell", "fonts-dejavu-core")
    (tree / "fonts.conf").write_text(FONTS.format(tree=tree))


def redis() -> None:
    """Unpack Debian's Redis server."""
    unpack(STAMPS / "redis", "redis-server")


BUILDERS: dict[str, Callable[[], None]] = {
    builder.__name__: builder
    for builder in (
        venv,
        npm,
        worker,
        previous,
        embedded,
        command,
        stage,
        python,
        node,
        packages,
        jars,
        java,
        go,
        porcupine,
        bundlers,
        chromium,
        redis,
    )
}


def compile_workspace(stale: list[str]) -> None:
    """Run cargo once for all parts."""
    # Cargo compares times, so it would overlook a changed source that is older than the last build.
    for name in {name for part in stale for name in PARTS[part].changed()}:
        if (ROOT / name).exists():
            os.utime(ROOT / name)
    # When the macros are expanded, they append to the description of Node's addon. This must happen only
    # once.
    shutil.rmtree(TYPES, ignore_errors=True)
    TYPES.mkdir(parents=True)
    napi = {"NAPI_TYPE_DEF_TMP_FOLDER": str(TYPES), "NAPI_FORCE_BUILD_ZKLOCK_NODE": str(time.time_ns())}
    run("cargo", "build", "--locked", "--workspace", "--quiet", env=napi)


def ordered(names: list[str]) -> list[str]:
    """Return the parts and their prerequisites, each before the parts that need it."""
    wanted = set(names) | {need for name in names for need in PARTS[name].needs}
    return [name for name in BUILDERS if name in wanted]


def within_reach() -> list[str]:
    """Return all parts for `make test`, except those whose programs this machine lacks."""
    names = [name for name, part in PARTS.items() if not part.apart]
    lacking = {name: what for name in names if (what := PARTS[name].lacking()) is not None}
    if lacking and everything():
        raise SystemExit("\n".join([*lacking.values(), f"{EVERYTHING} is set: nothing may be left out"]))
    for what in lacking.values():
        print(f"left out: {what}", flush=True)
    return [name for name in names if name not in lacking]


def main() -> int:
    """Build the parts that are not up to date."""
    names = sys.argv[1:] or within_reach()
    if unknown := set(names) - set(PARTS):
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    stale = [name for name in ordered(names) if PARTS[name].problem() is not None]
    # Computed before the build, so that the next build notices edits made meanwhile.
    digests = {name: PARTS[name].digests() for name in stale}
    compiled = False
    for name in stale:
        start = time.monotonic()
        if name in CARGO_BUILDS and not compiled:
            compile_workspace([name for name in stale if name in CARGO_BUILDS])
            compiled = True
        BUILDERS[name]()
        PARTS[name].record(digests[name])
        print(f"built {name} in {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
