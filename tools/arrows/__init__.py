"""Which file uses names of which other file, in Rust, TypeScript and Python.

An arrow is a name used from another file, wherever it is written: imported, or by its path in the middle of
code; of a parent or of a child; as a value or only as a type. A name that a file merely passes on is followed
to the file that defines it, so `mod` lines and re-exports are no arrows themselves.

Methods are not considered: only a compiler knows which file defines the method of a call. Mostly a file
must name a type before it can call its methods.
"""
