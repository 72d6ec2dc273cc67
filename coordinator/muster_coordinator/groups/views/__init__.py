"""Reads that change no group: descriptions, lists, metrics."""
