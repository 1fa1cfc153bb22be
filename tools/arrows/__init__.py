"""Finds which file uses names of which other file, in Rust, TypeScript and Python.

An arrow is a use of a name from another file. It counts in an import and as a path in code, for names of a
parent or a child module, as a value and as a type. If a file only re-exports a name, the arrow leads to the
file that defines it. `mod` lines and re-exports are therefore not arrows themselves.

Methods are ignored, because only a compiler knows which file defines the method of a call. Most files must
name a type before they can call its methods.
"""
