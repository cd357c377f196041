"""What all tests share."""

from hypothesis import settings

# Timing is the business of benchmarks: a busy machine must not fail a theorem.
settings.register_profile("counterpoint", deadline=None)
settings.load_profile("counterpoint")

try:
    import torch
except ImportError:
    pass
else:
    # Threads gain nothing on nets this small, and on a busy machine they wait for each other.
    torch.set_num_threads(1)
