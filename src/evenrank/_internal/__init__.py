"""Helpers that every package may use; nothing here is public."""
