"""What all tests share."""

from hypothesis import settings

# Timing is the business of benchmarks: a busy machine must not fail a theorem.
settings.register_profile("counterpoint", deadline=None)
settings.load_profile("counterpoint")
