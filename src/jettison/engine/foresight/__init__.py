"""What would have been, and what will be: one decision run again with one number changed, and the trend of readings.

Everything here asks `node/decide` and believes nothing else. It is for commands: no agent runs it between two looks.
"""
