"""Pods as processes on a bare Linux host: no container runtime, no images, no Kubernetes.

Two halves. *Supervision* makes a pod's document come true: it starts processes, restarts, probes and ends them, keeps
their logs and volumes and writes down what it did before it does it. The *node* gives them places to live in and
watches: cgroups and their limits, what everything uses, the kernel's alarms and kills. `places` is the seam between the
halves, `runtime` puts them together behind the protocol that the agent knows.

Nothing here decides which pod is evicted, or when. Everything runs on one event loop; what may take long (walking
directories, deleting them) runs in two threads. Where the machine does not permit something, the next best thing is
taken and one line says so.
"""
