"""Relief beside a kubelet: what will it evict, and can that pod go earlier, through the Eviction API?

Here lives what measures a kubelet's node from outside, asks its API for evictions, and scores predictions against what
really came. No rule about which pod goes lives here: that is the engine's, and the kubelet's own configuration.
"""
