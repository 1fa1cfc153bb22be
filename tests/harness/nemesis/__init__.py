"""Workers of all kinds contend while a nemesis breaks one thing after another.

``station`` is where a worker runs and how it is reached; ``workload`` is what each of its owners does;
``register`` is what the locks guard; ``stage`` is what a fault may touch, ``faults`` and ``outages`` are what
can break; ``record`` is what is written down, and ``judge`` what is wrong with it; ``campaign`` is all of it
together.
"""
