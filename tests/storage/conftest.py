"""Hypothesis without deadlines: a busy machine is no failure of what a test proves."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
