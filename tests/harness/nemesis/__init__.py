"""Fault injection: workers of all kinds contend while the nemesis causes one fault after another.

- ``station``: where a worker runs, and its connections.
- ``workload``: what each owner does.
- ``register``: the data that the locks guard.
- ``context``: what a fault can use and change.
- ``faults`` and ``outages``: the faults.
- ``record``: the recorded events. ``judge``: the checks of these records.
- ``campaign``: runs all of this together.
"""
