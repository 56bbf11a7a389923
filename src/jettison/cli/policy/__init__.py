"""Commands that decide on files: `config`, `decide`, `rank`; what they read and what they print."""
