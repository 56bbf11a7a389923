"""Numbers and texts as Kubernetes and Go read and write them: quantities, durations, percentages, quoting."""
