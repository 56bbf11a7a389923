"""JOINS: a node of this machine as a member of a cluster, whose API may be ours or any other.

The node says who it is (`registration`), that it lives (`lease`), how its pods are (`pod_reports`), which it has from
elsewhere (`mirrors`) and what happens (events); the pods that are bound to it are one more source for its keeper
(`pod_source`). That is all the kubelet does between a node and an API, and nothing in here decides anything: who is
evicted, admitted or started is for the agent.

The agent does not wait for anything in here. While the API cannot be reached the node goes on as before, and whatever
was missed is told later: every round compares what is with what the API says, so nothing has to be remembered.
"""
