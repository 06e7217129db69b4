"""Prints who it is, as flota.env() says."""

import flota

print(flota.env())
