"""flota launches, watches and recovers distributed training: any framework, one command."""

__version__ = "0.1.0"
