"""One pod on a node: what it asked for, whether it is admitted, what is ended for it, its oom_score_adj.

How a pod lives from start to end is in `engine/lifecycle`.
"""
