"""What runs inside a box: standard library only, Python 3.9 or newer, quick to start."""
