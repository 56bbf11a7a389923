"""Commands that run or change a node of this machine: `up`, `down`, `restart`, `delete`, `exec`, `check`, `doctor`."""
