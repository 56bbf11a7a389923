"""Labels, label selectors and field selectors: their syntax, their texts, and what they select."""
