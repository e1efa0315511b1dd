"""Verbs about the file of a model: answers, pictures, pages, exports, what it has cost."""
