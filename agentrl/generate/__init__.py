"""Where tasks come from: seeded, endless, graded sources, each with an oracle."""
