"""The command line: one file per verb or family of verbs; `main` puts them together."""
