"""What commands find out about this machine and clear away on it, with or without an agent: doctor, disks, gc.

The rules by which images and containers go are the engine's; what is printed is in `cli`.
"""
