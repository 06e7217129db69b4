"""What a training script may import from flota. Cheap to import, works without flota around it, and on Python 3.8."""
