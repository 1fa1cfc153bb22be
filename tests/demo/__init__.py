"""`make demo`: processes contend for one lock, one is killed while it holds, and the run is drawn.

`python -m demo --help`, run in the directory `tests`, lists the options.
"""
