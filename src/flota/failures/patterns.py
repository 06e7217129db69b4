"""What frameworks and systems print when something gives way, in lower case. One row a text that somebody has met.
Pure.
"""

from __future__ import annotations

DEVICE_MEMORY = (
    "cuda out of memory",
    "hip out of memory",
    "xpu out of memory",
    "npu out of memory",
    "mps backend out of memory",
    "outofmemoryerror",
    "cuda_error_out_of_memory",
    "cudaerrormemoryallocation",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "out of memory error on gpu",
    "out of memory error on xpu",
    "cuda failure 'out of memory'",
    "cuda failure 2 'out of memory'",
    "out of memory while trying to allocate",
    "resourceexhaustederror",
    "resource_exhausted",
)
SHARED_MEMORY = (
    "insufficient shared memory",
    "unable to open shared memory object",
    "unable to write to file </torch_",
    "out of shared memory",
    "error while creating shared memory segment",
)
DISK = ("no space left on device", "disk quota exceeded", "enospc")
PORT = ("address already in use", "eaddrinuse")
FILES = ("too many open files",)
MEMORY = (
    "cannot allocate memory",
    "can't allocate memory",
    "std::bad_alloc",
    "not enough memory: you tried to allocate",
)
DEVICE_ERROR = (
    "cuda error:",
    "cuda error(",
    "hip error:",
    "device-side assert",
    "uncorrectable ecc error",
    "unhandled cuda error",
)
SHARED_OBJECT = ("cannot open shared object file", "undefined symbol:")

# Exceptions that say by their type that another process was lost.
LOST_PEER_TYPES = (
    "ConnectionError",
    "ConnectionResetError",
    "ConnectionAbortedError",
    "ConnectionRefusedError",
    "BrokenPipeError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "UnavailableError",
)
# What frameworks raise for anything, so that their words must tell.
FRAMEWORK_TYPES = (
    "RuntimeError",
    "OSError",
    "SystemError",
    "TimeoutError",
    "EOFError",
    "XlaRuntimeError",
    "JaxRuntimeError",
    "InternalError",
    "AbortedError",
    "CancelledError",
    "RpcError",
    "_InactiveRpcError",
    "_MultiThreadedRendezvous",
    "HorovodInternalError",
    "DistBackendError",
)
# Paddle makes types of Python's of its own kinds, which it names in front: `ValueError: (InvalidArgument) TCP …`.
FRAMEWORK_WORD = "("
# A process that says one of these has lost another. If that one is known to have failed, it is the one to look at.
LOST_PEER = (
    *(name.lower() for name in LOST_PEER_TYPES if name != "ConnectionError"),  # which clients of other services raise
    "connection reset by peer",
    "connection closed by peer",
    "connection closed by remote peer",
    "connection aborted",
    "connection refused",
    "broken pipe",
    "socket closed",
    "gloo/transport/tcp",
    "connectfullmesh failed",
    "failed to recv, got 0 bytes",
    "recvvalue failed",
    "sendbytes failed",
    "connection was likely closed",
    "retrieving nccluniqueid from",
    "ncclremoteerror",
    "ncclsystemerror",
    "nccl communicator was aborted",
    "remote process exited or there was a network error",
    "collective operation timeout",
    "collective ops is aborted",
    "jax distributed service detected fatal errors",
    "coordination service",
    "statuscode.unavailable",
    "tcp connection to",
    "peer closed the connection",
    "peer has died",
)
# One that has lost another, and knows it only because its patience was over.
TIMED_OUT = ("timeout", "timed out", "deadline_exceeded", "deadline exceeded")
SIGTERM_BLOCK = "[SignalInfo: *** SIGTERM"  # Paddle's, when somebody has stopped the process
# Files of clients that talk to other services, and never to a process of the job.
STRANGERS = (
    "/http/client.py",
    "/urllib/request.py",
    "/urllib3/",
    "/requests/",
    "/aiohttp/",
    "/httpx/",
    "/httpcore/",
    "/botocore/",
    "/redis/",
)
