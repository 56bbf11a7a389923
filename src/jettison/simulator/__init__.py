"""The simulator rehearses: what a node saw is replayed, what it might see is imagined, and the same code decides.

Here live recordings and their replay, scenarios and the worlds that they describe, sweeps and pictures. No rule of an
eviction, of a budget or of a pod's life is in here: those are the engine's, driven by the real agent. Nothing in here
reads a clock or sleeps; chance comes from a seed.
"""
