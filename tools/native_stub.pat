# What nanobind's stubgen leaves out: a name between double underscores.
memlake._native.__prefix__:
    __version__: str
