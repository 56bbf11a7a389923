"""What benchmarks with a real node or a real API server share.

nodes.py        a node that leaves nothing behind
grower.c        a process that grows at a known rate; grower.py does the same where there is no C compiler
trial.py        one such process from its start to its death, and what its notes say about the process that ended it
poller.py       the baseline: look every 100 ms, then SIGKILL
peers.py        earlyoom and nohang, where they are installed
load.py         clients of an API server that cost little
crowd.py        thousands of pods to be evicted
floor.py        the baseline: the least that a durable server over TLS does
"""
