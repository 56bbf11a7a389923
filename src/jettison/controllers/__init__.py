"""RECONCILES: makes the cluster be what its objects say, through the API like any other client.

Here live the controllers, one file or folder each, `machinery`, which all of them are built from, and `runner`, which
starts them. What the server last told is in `runtimes/kube/cache`.

A controller is told names, never differences: it compares what should be with what is, and does the next thing about
it. So it does not matter how often it is told, or what it missed; nothing needs to be kept that the API does not
have, and after a restart it goes on from there. Rules that need neither a clock nor an API are the engine's. Nothing in
here imports the apiserver: the same controllers run against any Kubernetes.
"""
