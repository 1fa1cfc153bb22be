"""Test harness: real servers, a fault-injecting proxy, workers in every language, and the history checker."""

import sys
from pathlib import Path

# Makes `parts` (which knows what is built) importable. It is here so that every harness module can import it.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
