"""The rules of a pod: its spec, put together by `pod_specs`, its containers, volumes and placement, status and updates.

What other kinds share, such as names, quantities and addresses, lives one room above.
"""
