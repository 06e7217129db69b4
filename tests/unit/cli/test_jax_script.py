"""Whether a script's text leaves it to JAX to find the other processes. Otherwise Open MPI's names could do harm."""

from __future__ import annotations

import warnings

import pytest

from flota.cli.jax_script import leaves_ranks_to_jax

CALL = "\njax.distributed.initialize()\n"


@pytest.mark.parametrize(
    "text",
    [
        f"import jax{CALL}",
        f"import os, jax{CALL}",
        f"import os; import jax{CALL}",
        f"import os, \\\n  jax{CALL}",
        f"import jax.numpy{CALL}",
        f"import jax.distributed{CALL}",
        "import jax as j\nj.distributed.initialize()",
        "import jax.distributed as d\nd.initialize()",
        "from jax import distributed\ndistributed.initialize()",
        "from jax import distributed as d, numpy\nd.initialize()",
        "from jax.distributed import initialize as i\ni()",
        "import jax\njax.distributed.initialize ()",
        "import jax\njax.distributed.initialize(coordinator_address=os.environ.get('A'))",
        "import jax\nif n: jax.distributed.initialize(a, n, i)\nelse: jax.distributed.initialize()",
        f"from hydra import initialize\nimport jax{CALL}",
        f"# coding: latin-1\nimport jax  # \xe9{CALL}",
        "from jax.distributed import initialize\ninitialize( )",
        f"def main():\n    import jax\n    {CALL.strip()}",
        "import jax\njax.distributed.initialize(\n    initialization_timeout=600,\n)",
        "import jax\njax.distributed.initialize(local_device_ids=[0])",
        f"import jax\r\n{CALL}",
        f"import jax, torch\nimport transformers{CALL}",
        f"import jax\nfrom .mpi4py import MPI{CALL}",
        f'"""Without mpi4py:\nimport mpi4py\n"""\nimport jax{CALL}',
    ],
)
def test_a_call_without_the_number_of_processes_is_left_to_jax(text):
    assert leaves_ranks_to_jax(text.encode("latin-1"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import jax",
        CALL,
        f"import jaxtyping{CALL}",
        f"import jax.numpy as jnp{CALL}",
        f'"""\nimport jax{CALL}"""',
        f'import jax\n"""{CALL}"""',
        "import jax\n# jax.distributed.initialize()",
        "import jax\nfrom hydra import initialize\ninitialize(version_base=None, config_path='.')",
        "import jax\nfrom .distributed import initialize\ninitialize()",
        "import jax\ndef initialize(): ...\ninitialize()",
        "import jax\nself.initialize(rng=1)",
        "import jax\nself.jax.distributed.initialize()",
        "import jax\nmake().distributed.initialize()",
        f"from . import jax{CALL}",
        f"# import jax{CALL}",
        "import jax\njax.distributed.initialize(address, 2, rank)",
        "import jax\njax.distributed.initialize(coordinator_address=a, num_processes=2, process_id=0)",
        "import jax\njax.distributed.initialize(os.environ.get('A'), num_processes=int(n), process_id=int(i))",
        "import jax\njax.distributed.initialize(coordinator_address=get('A'), num_processes=int(n), process_id=int(i))",
        "import jax\njax.distributed.initialize(**given)",
        "import jax\njax.distributed.initialize(*given)",
        "import jax\njax.distributed.initialize(os.environ['MASTER'], int(n), int(i))",
        f"import jax\nfrom mpi4py import MPI{CALL}",
        f"import jax, horovod.torch as hvd{CALL}",
        f"import jax\nfrom accelerate import Accelerator{CALL}",
        f"import jax\nimport deepspeed{CALL}",
        f"import jax\nrank = os.environ['OMPI_COMM_WORLD_RANK']{CALL}",
        f"import jax\nif True: import mpi4py.MPI as mpi{CALL}",
        f"import jax{CALL}print 'Python 2'",
        f"import jax{CALL}\0",
        f"import jax{CALL}{'(' * 1000}",
        f"import jax{CALL}{'-' * 100_000}1",
    ],
)
def test_any_other_script_gets_nothing(text):
    assert not leaves_ranks_to_jax(text.encode())


def test_the_warnings_of_a_script_are_left_to_its_workers(recwarn):
    warnings.simplefilter("always")

    assert leaves_ranks_to_jax(f"import jax{CALL}'\\d'".encode())
    assert not recwarn.list
