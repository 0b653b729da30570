"""Ownership: how an object is made, how it gives back what it owns, and what can stop it.

`closable` closes an object when a ``with`` block ends. `factory_made` refuses to construct objects that a function must
make. `views` refuses to close memory while a NumPy view of it is alive. `undo_failures` turns a failure while an object
is dropped into a warning.
"""
