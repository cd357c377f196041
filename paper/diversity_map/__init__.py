"""When does diversity pay? The same networks trained independently and together, over sizes, numbers and tables."""
