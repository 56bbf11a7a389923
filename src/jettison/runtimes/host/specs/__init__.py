"""What the document of a pod asks this host to run, checked before anything is touched.

Nothing here touches the machine.
"""
