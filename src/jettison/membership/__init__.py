"""JOINS: a node of this machine as a member of a cluster, whose API may be ours or any other.

The node reports its Node object and its heartbeat (`registration`, `node_object`), the statuses of its pods
(`pod_reports`), its static pods (`mirrors`) and its events; the pods that are bound to it are one more source of pods
for the agent (`pod_source`), and those that vanish from the API without a deletion stay until that is confirmed
(`missing_pods`). `member` runs it all. That is what a kubelet does between a node and an API. Nothing in here decides:
which pod is evicted, admitted or started is for the agent.

The agent does not wait for anything in here. While the API cannot be reached, the node goes on as before, and what was
missed is reported later: every round compares what is with what the API has, so nothing has to be remembered.
"""
