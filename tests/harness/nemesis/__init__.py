"""Workers of all kinds contend while a nemesis breaks one thing after another.

``station`` is where a worker runs and how it is reached; ``workload`` is what each of its owners does;
``register`` is what the locks guard; ``faults`` is what can break; ``campaign`` is all of it together, and
the verdict.
"""
