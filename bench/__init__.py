"""The benchmark suite: ``python -m bench list|run|compare`` from a checkout."""
