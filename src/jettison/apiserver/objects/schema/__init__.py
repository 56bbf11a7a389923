"""What Kubernetes objects look like: which fields a kind has, of which types, and how they are written.

A document is read once, at the door. What comes out has the right type in every field that we know, so that nobody
behind the door has to ask; it is written as Go would write it (quantities in their canonical form, times in UTC, zero
values left out), so that equal objects are equal values. Fields that we do not know pass unchanged.

`manifests.kinds` holds the fields, `reading` applies them. Whether values make sense together is
not asked here: that is validation.
"""
