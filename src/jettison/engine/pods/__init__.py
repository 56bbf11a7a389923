"""One pod: what it asked for, whether a node admits it, what is ended for it, its oom_score_adj, what an API shows.

How a pod lives from start to end is in `engine/lifecycle`, where it runs is decided in `engine/scheduling`.
"""
