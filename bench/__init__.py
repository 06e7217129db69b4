"""What flota claims about speed, memory and CPU: one file per claim, measured in one run with other launchers."""
