"""What every controller is built from: queue, workers, expectations, events, pods made for an owner.

Nothing here knows one kind of workload.
"""
