"""Whether an object is valid: Kubernetes' rules and, because people search for them, Kubernetes' words.

Every function here takes objects whose fields have the right types (see `schema`) and yields the mistakes it finds, in
the order in which Kubernetes lists them. Nothing is changed here, and nothing asks the store: what depends on other
objects is admission.
"""
