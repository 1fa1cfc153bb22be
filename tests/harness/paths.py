"""Paths of the tests and build products. They are relative to this file, not to the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = TESTS.parent
TARGET = TESTS / "target"
JARS = TARGET / "lib"
CLASSES = Path(os.environ.get("ZKLOCK_JAVA_CLASSES", str(TARGET / "classes")))

JAVA = os.environ.get("ZKLOCK_JAVA", "java")
NODE = os.environ.get("ZKLOCK_NODE", "node")
PYTHON = sys.executable

RUST_WORKER = Path(os.environ.get("ZKLOCK_RUST_WORKER", str(TARGET / "zklock-worker")))
PREVIOUS_WORKER = TARGET / "previous-worker"
RUST_ENDS = TARGET / "ends"
RUST_SLOTS = TARGET / "slots"
COMMAND = TARGET / "zklock"
EMBEDDED = TARGET / "zklock-test-server"
GO_WORKER = Path(os.environ.get("ZKLOCK_GO_WORKER", str(TARGET / "go-worker")))
PORCUPINE = TARGET / "porcupine"
NODE_PACKAGE = Path(os.environ.get("ZKLOCK_NODE_PACKAGE", str(REPOSITORY / "bindings-node")))
