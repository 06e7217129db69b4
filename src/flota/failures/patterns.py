"""Error messages of frameworks and systems, in lower case. Pure."""

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

# Exceptions whose type means that another process was lost.
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
# Exceptions that frameworks raise for many reasons, so that the message decides.
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
# Paddle raises Python's types and puts its own error kind first: `ValueError: (InvalidArgument) TCP …`.
FRAMEWORK_WORD = "("
# Messages of a process that lost another one.
LOST_PEER = (
    *(name.lower() for name in LOST_PEER_TYPES if name != "ConnectionError"),  # clients of other services use it
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
# Messages of a process that noticed a lost one by a timeout.
TIMED_OUT = ("timeout", "timed out", "deadline_exceeded", "deadline exceeded")
SIGTERM_BLOCK = "[SignalInfo: *** SIGTERM"  # printed by Paddle after SIGTERM
# Files of clients that connect to services outside the job.
OTHER_SERVICES = (
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
# Of jax.distributed.initialize() without arguments.
JAX_FOUND_NO_RANKS = (
    "ValueError: coordinator_address should be defined",
    "ValueError: Number of processes must be defined",
    "ValueError: The process id of the current process must be defined",
)
