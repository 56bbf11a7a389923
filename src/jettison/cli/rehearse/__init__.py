"""Commands that rehearse: `record`, `replay` and `simulate`; what they read and what they print.

They decide nothing and run no world: that is the simulator's.
"""
