"""What flota promises about speed, memory and CPU: one file a claim, each measured beside its peers in the same run."""
