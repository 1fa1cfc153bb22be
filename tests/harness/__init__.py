"""The test harness: real servers, a meddling proxy, workers in every language, and the checker."""

import sys
from pathlib import Path

# Where `parts` is, which knows what is built. Here, so that it is found whichever module is imported first.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
