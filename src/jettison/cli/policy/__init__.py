"""Commands that decide on a node of files or of a cluster: `config`, `decide`, `rank`; what they read and print.

They need no privileges on this machine, change nothing, and make no decision that the engine does not make.
"""
