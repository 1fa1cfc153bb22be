"""Test harness: real servers, a fault-injecting proxy, workers in every language, and the history checker."""

import sys
from pathlib import Path

# Let all harness modules import tools/parts.py.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
