"""Who is asking and what it may do: tokens, certificates, roles, NodeRestriction, reviews."""
