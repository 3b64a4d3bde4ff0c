"""What every sandbox promises, as checks anyone can run on any backend, a stranger's included."""
