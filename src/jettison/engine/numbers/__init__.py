"""Numbers and texts as Kubernetes and Go read and write them: quantities, durations, percentages, quoting.

What a number is about, a signal or a request, is not known here.
"""
