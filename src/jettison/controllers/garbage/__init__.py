"""Controllers that delete what is left over: objects without an owner, and pods that ended or lost their node.

Finished Jobs are deleted in `controllers/job`.
"""
