"""A KubeletConfiguration: its fields, merging, validation, and the policy and allocatable amounts that follow.

Files are read in `manifests/files`.
"""
