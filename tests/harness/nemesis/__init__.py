"""Workers of all kinds contend while a nemesis breaks one thing after another.

``station`` is where a worker runs, and how it is reached; ``workload`` what each of its owners does;
``register`` what the locks guard; ``faults`` what can break; ``campaign`` all of it together, and the
verdict.
"""
