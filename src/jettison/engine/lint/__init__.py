"""Settings and objects that are allowed and rarely do what is meant: named rules, as functions over values.

Where values come from, where they stand in files and how findings are printed is in `cli`.
"""
