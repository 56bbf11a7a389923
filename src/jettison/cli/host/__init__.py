"""Commands that run or change a node: `up`, `demo`, `down`, `restart`, `delete`, `exec`, `check`, `doctor`.

What assembles a node lives in `node`; commands that only look at one are in `inspect`.
"""
