from hypothesis import settings

# The first product of a run starts the threads of BLAS, which takes longer than Hypothesis allows.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
