"""What pods keep on disk: volumes, logs and writable directories; made, rotated, freed and removed.

How much it takes is found out in `runtimes/machine`.
"""
