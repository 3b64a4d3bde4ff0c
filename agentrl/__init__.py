"""agentrl: train tool-using agents on long tasks. Begin reading at `run/train.py`."""

__version__ = "0.1.0"
