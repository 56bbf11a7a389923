"""Commands that look at a node of this machine: `pods`, `logs`, `top`, `why`, `journal`, `events`.

They change nothing. They ask the agent if it runs, and else read what it has written.
"""
