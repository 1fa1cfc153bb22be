"""`make demo`: processes contend for one lock, one is killed while it holds, and the run is drawn.

`python -m demo --help`, from the directory `tests`, says what can be chosen.
"""
