"""The public functions for training scripts. Cheap to import; they work under other launchers and on Python 3.8."""
