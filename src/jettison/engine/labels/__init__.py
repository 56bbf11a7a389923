"""Labels, label selectors and field selectors: their syntax, their texts, and what they select.

Which objects are asked is the caller's business: no kind of object is known here.
"""
