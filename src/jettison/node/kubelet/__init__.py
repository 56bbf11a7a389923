"""What a kubelet serves on its port, served by a process of its own: readings, logs, commands, streams and ports.

The agent holds the listening socket and starts the process when a client comes (`port`); everything else here runs in
that process and asks the agent by its unix socket. So neither a handshake nor a byte of a stream ever takes a turn of
the loop that guards the node. How logs come to be found is the work of `node/logs`.
"""
