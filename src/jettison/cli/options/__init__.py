"""Options that several commands share, and what they become.

An option that one command has stands beside that command.
"""
