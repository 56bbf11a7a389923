"""Commands that decide on files: `config`, `decide`, `rank`; what they read and what they print.

They need no node, no cluster and no privileges, and make no decision that the engine does not make.
"""
