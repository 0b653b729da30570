"""The project's figures, measured: `make bench` runs all of them, `python -m benchmarks NAME...` some."""
