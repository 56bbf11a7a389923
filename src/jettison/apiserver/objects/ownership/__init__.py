"""Ownership: which client owns which field of an object, and what server-side apply makes of that.

* `field_sets`: sets of fields, in the form in which objects carry them
* `walks`: values compared, merged and cut along the fields of their kind
* `records`: the entries of `metadata.managedFields`, small in memory
* `tracking`: what a write, or an apply, does to an object and to its entries

Nothing in here knows requests or the store.
"""
