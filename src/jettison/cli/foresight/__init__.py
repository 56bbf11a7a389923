"""Commands that look ahead and back: what would have spared a pod, which goes next and when, which settings are traps.

What they say is found in `engine/foresight` and `engine/lint`; here are their inputs and their words.
"""
