"""Commands that look at a node of this machine: `pods`, `logs`, `top`, `why`, `journal`.

They change nothing.
"""
