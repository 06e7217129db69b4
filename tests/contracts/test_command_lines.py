"""Command lines as people write them for the other launchers: flota in the launcher's place gives workers the same.

The flags, their order and their quotes are those of public scripts; names of scripts and values are ours.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from shlex import split

import pytest

from flota.cli.main import main
from tests.launching import environment

LAUNCHERS = {
    "torchrun": {},
    "python -m torch.distributed.run": {},
    "python -m torch.distributed.launch": {"legacy_local_rank": True},
    "python -m paddle.distributed.launch": {},
    "fleetrun": {},
}
# Each case: a command line; the number of workers on this node and the command of the last one; some of its variables.
CASES = r"""
torchrun --standalone --nproc_per_node=8 train.py cfg/small.py
  8: train.py cfg/small.py
  WORLD_SIZE=8 RANK=7

OMP_NUM_THREADS=1 torchrun --standalone --nproc_per_node=8 -m scripts.train -- --depth=26 --run=$NAME
  8: -m scripts.train --depth=26 '--run=$NAME'
  LOCAL_RANK=7

torchrun --nproc_per_node=4 --rdzv_backend c10d --rdzv_endpoint="localhost:0" --local-ranks-filter 0 --role rank \
  --tee 3 -m package.train --module small --config debug
  4: -m package.train --module small --config debug
  ROLE_NAME=rank LOCAL_WORLD_SIZE=4

torchrun --nproc_per_node 4 --nnodes 1 --node_rank 0 --master_addr localhost --master_port 6000 train.py \
  --tensor-model-parallel-size 2 --distributed-backend nccl --save a --load a
  4: train.py --tensor-model-parallel-size 2 --distributed-backend nccl --save a --load a
  WORLD_SIZE=4 GROUP_RANK=0

torchrun --nproc_per_node=2 --nnodes=2 --node_rank=1 --master_addr=127.0.0.1 --master_port=1234 train.py
  2: train.py
  RANK=3 WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2

torchrun --nnodes=2:2 --nproc_per_node=2 --rdzv_id=100 --rdzv_backend=c10d --rdzv_endpoint=localhost train.py
  2: train.py
  WORLD_SIZE=4 TORCHELASTIC_RUN_ID=100 TORCHELASTIC_MAX_RESTARTS=0

torchrun --nnodes=1:4 --nproc-per-node=2 --max-restarts=3 --rdzv-id=j --rdzv-backend=c10d \
  --rdzv-conf=join_timeout=5,last_call_timeout=1,timeout=5 train.py
  2: train.py
  TORCHELASTIC_MAX_RESTARTS=3 TORCHELASTIC_RUN_ID=j

torchrun --nnodes=1 --nproc_per_node=4 --max_restarts=0 --rdzv_id=17 --rdzv_backend=c10d train.py --id x --rank 3
  4: train.py --id x --rank 3
  TORCHELASTIC_RUN_ID=17 TORCHELASTIC_MAX_RESTARTS=0

torchrun --nnode 1 --nproc_per_node 4 -m main --data 'd-{00..18}.tar'
  4: -m main --data 'd-{00..18}.tar'

CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nnode=1 --nproc_per_node=gpu --rdzv_id=5 --rdzv_endpoint=localhost:15213 \
  --rdzv_backend=c10d train.py
  4: train.py
  CUDA_VISIBLE_DEVICES=0,1,2,3 LOCAL_RANK=3

torchrun --rdzv_endpoint=localhost:29910 --nproc_per_node=1 train.py c.yaml
  1: train.py c.yaml
  RANK=0

torchrun --nproc_per_node 1 train.py --dir a/ --max_len 512
  1: train.py --dir a/ --max_len 512
  WORLD_SIZE=1

torchrun --standalone --nproc_per_node=2 --no-python sh -c 'exec python train.py "$0" "$RANK"' x
  2: sh -c 'exec python train.py "$0" "$RANK"' x
  RANK=1

torchrun --nproc_per_node=2 --no_python sh --cpu=node -- python -u train.py
  2: sh --cpu=node -- python -u train.py

torchrun --master_port=29600 --nnodes=1 --nproc_per_node=1 -- train.py --steps 3
  1: train.py --steps 3

torchrun --log_dir a/b -r 3 -t 3 --master_port=9909 --nproc_per_node=4 train.py -c c.yml
  4: train.py -c c.yml

CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --nproc_per_node=4 --master_port=20001 train.py --wrap 'full auto' --bf16 True
  4: train.py --wrap 'full auto' --bf16 True
  CUDA_VISIBLE_DEVICES=4,5,6,7 LOCAL_RANK=3

PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=23456 \
  MASTER_ADDR=10.0.0.1 MASTER_PORT=23456 RANK=7 WORLD_SIZE=9 torchrun train.py
  2: train.py
  RANK=3 WORLD_SIZE=4

torchrun --nproc_per_node 2 train.py trainer.devices=8 'data.prefix=[1,/a/b]' +x.y=z
  2: train.py trainer.devices=8 'data.prefix=[1,/a/b]' +x.y=z

torchrun --nnodes=1:1 --nproc_per_node=2 --rdzv-backend=static --rdzv-endpoint=127.0.0.1:29400 \
  --master-addr=127.0.0.1 train.py
  2: train.py
  WORLD_SIZE=2

CUDA_VISIBLE_DEVICES=1 torchrun --nproc_per_node=2 train.py
  2: train.py
  CUDA_VISIBLE_DEVICES=1 LOCAL_RANK=1

CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 torchrun --nproc-per-node=2 --max-restarts=3 train.py
  2: train.py
  CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7

torchrun --nproc_per_node=2 train.py --nproc_per_node=7 -m x -- --y
  2: train.py --nproc_per_node=7 -m x -- --y
  WORLD_SIZE=2

ZE_AFFINITY_MASK=0,1,2 torchrun --nproc-per-node=xpu train.py
  3: train.py
  WORLD_SIZE=3

XPU_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=xpu train.py
  2: train.py
  WORLD_SIZE=2

HABANA_VISIBLE_MODULES=0,1 torchrun --nproc-per-node=hpu train.py
  2: train.py
  WORLD_SIZE=2

torchrun --run-path --logs_specs=default --nnodes=1 --nproc-per-node=2 train.py
  2: train.py

torchrun --monitor-interval=1 --start-method=spawn --no-python sh t
  1: sh t
  WORLD_SIZE=1

python -m torch.distributed.run --nproc_per_node 2 train.py --weights y.pt --device 0,1
  2: train.py --weights y.pt --device 0,1
  LOCAL_RANK=1

python -m torch.distributed.launch --nproc_per_node 2 --master_port 9527 train.py --workers 8 --device 0,1 --img 64 \
  64
  2: train.py --local-rank=1 --workers 8 --device 0,1 --img 64 64
  LOCAL_RANK=1

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m torch.distributed.launch --nproc_per_node=4 --master_port='29545' --use_env \
  train.py --model d
  4: train.py --model d
  LOCAL_RANK=3

python -m torch.distributed.launch --nnodes=1 --node_rank=0 --master_addr=127.0.0.1 --nproc_per_node=4 \
  --master_port=29500 ./train.py c.py --seed 0 --launcher pytorch
  4: ./train.py --local-rank=3 c.py --seed 0 --launcher pytorch
  LOCAL_RANK=3

python -m torch.distributed.launch --nproc_per_node=4 -m package.train --amp
  4: -m package.train --local-rank=3 --amp
  LOCAL_RANK=3

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m paddle.distributed.launch --gpus '0,1,2,3' train.py -c c.yml -o \
  Global.model=./p
  4: train.py -c c.yml -o Global.model=./p
  PADDLE_TRAINER_ID=3 FLAGS_selected_gpus=3

CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 python -m paddle.distributed.launch --log_dir=./a/ --gpus 0,1,2,3 train.py \
  --eval
  4: train.py --eval
  PADDLE_TRAINERS_NUM=4 CUDA_VISIBLE_DEVICES=0,1,2,3

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m paddle.distributed.launch --gpu 0,1,2,3 train.py run --arch 12
  4: train.py run --arch 12
  PADDLE_TRAINER_ID=3

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m paddle.distributed.launch --devices "0,1" train.py a.json
  2: train.py a.json
  PADDLE_TRAINER_ID=1

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m paddle.distributed.launch train.py
  4: train.py
  PADDLE_GLOBAL_SIZE=4 PADDLE_LOCAL_RANK=3

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m paddle.distributed.launch --nproc_per_node=1 --ips=127.0.0.1 train.py
  1: train.py
  FLAGS_selected_gpus=0,1,2,3 PADDLE_TRAINERS_NUM=1

PADDLE_START_PORT=35789 python -m paddle.distributed.launch --nproc_per_node=2 --ips=127.0.0.1 train.py
  2: train.py
  PADDLE_TRAINER_ENDPOINTS=127.0.0.1:35789,127.0.0.1:35790 PADDLE_CURRENT_ENDPOINT=127.0.0.1:35790

CUDA_VISIBLE_DEVICES=2,3,4,5 python -m paddle.distributed.launch --master 127.0.0.1:8080 --nnodes 1 --nproc_per_node \
  4 --ips 127.0.0.1 train.py --dtype bfloat16
  4: train.py --dtype bfloat16
  PADDLE_NNODES=1 CUDA_VISIBLE_DEVICES=2,3,4,5

PADDLE_NNODES=1 PADDLE_MASTER=127.0.0.1:12538 python -m paddle.distributed.launch --nnodes=1 \
  --master=127.0.0.1:12538 train.py
  1: train.py
  PADDLE_NNODES=1

python -m paddle.distributed.launch --nnode=2 --rank 1 --master=127.0.0.1:8090 --nproc_per_node 2 train.py
  2: train.py
  PADDLE_TRAINER_ID=3 PADDLE_NNODES=2

PADDLE_NNODES=2 PADDLE_MASTER=127.0.0.1:8090 PADDLE_RANK=1 python -m paddle.distributed.launch train.py
  1: train.py
  PADDLE_TRAINER_ID=1 PADDLE_TRAINERS_NUM=2

CUDA_VISIBLE_DEVICES=0,1,2,3 python -m paddle.distributed.launch --selected_gpus=0,1 --log_dir ./a train.py
  2: train.py
  PADDLE_TRAINER_ID=1

XPU_VISIBLE_DEVICES=0,1 python -m paddle.distributed.launch --xpus "0,1" train.py --device xpu
  2: train.py --device xpu
  FLAGS_selected_xpus=1

python -m paddle.distributed.launch --nproc_per_node=2 train.py --log_dir mine
  2: train.py --log_dir mine
  PADDLE_DISTRI_BACKEND=gloo

CUDA_VISIBLE_DEVICES=0,1,2,3 fleetrun --gpus 0,1 train.py --model_type b
  2: train.py --model_type b
  PADDLE_TRAINER_ID=1

CPU_NUM=12 fleetrun --log_dir a --worker_num 4 --server_num 2 train.py --config c.yaml
  6: train.py --config c.yaml

POD_IP=127.0.0.2 fleetrun --ips=127.0.0.1,127.0.0.2 --nproc_per_node=2 train.py
  2: train.py
  PADDLE_TRAINER_ID=3 PADDLE_TRAINERS_NUM=4

fleetrun --nproc_per_node=4 --backend=gloo train.py
  4: train.py
  PADDLE_DISTRI_BACKEND=gloo
"""
# Command lines that the other launchers reject as well, or that flota refuses; and what the error names.
REFUSED = [
    ("torchrun --nnodes=2:20:30 train.py", "`2:20:30`"),
    ("torchrun --nproc-per-node=unknown train.py", "`unknown`"),
    ("torchrun --nnodes=1 --no-python --module sh", "--module and --no-python"),
    ("PET_NO_PYTHON=1 PET_MODULE=1 torchrun sh", "PET_MODULE and PET_NO_PYTHON"),
    ("torchrun --logs_specs=mine train.py", "--logs_specs"),
    ("torchrun --redirect=3 train.py", "write --redirects"),
    ("python -m torch.distributed.launch --no-python sh", "--use-env"),
    ("fleetrun --backend=random train.py", "`random`"),
    ("python -m paddle.distributed.launch --auto_parallel_config a.json train.py", "--auto_parallel_config"),
    ("fleetrun --enable_auto_mapping true train.py", "--enable_auto_mapping"),
]


@pytest.fixture
def dry_run(tmp_path, monkeypatch, capsys):
    """Run flota with a command line of another launcher; it starts nothing. Returns its exit code and its output."""

    def run(line: str) -> tuple[int, str, str]:
        launcher = next(name for name in LAUNCHERS if f" {name} " in f" {line}")
        variables, words = f" {line}".split(f" {launcher} ", 1)
        (tmp_path / "train.py").touch()
        monkeypatch.chdir(tmp_path)
        clean = environment(dict(word.split("=", 1) for word in split(variables)))
        for name in os.environ.keys() - clean.keys():
            monkeypatch.delenv(name)
        for name, value in clean.items():
            monkeypatch.setenv(name, value)
        code = main(["--dry-run", "--json", *split(words)], **LAUNCHERS[launcher])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("case", CASES.strip().split("\n\n"), ids=lambda case: case.splitlines()[0])
def test_workers_get_what_the_command_line_says(dry_run, case):
    line, started, *variables = case.replace(" \\\n  ", " ").split("\n  ")

    code, out, err = dry_run(line)

    assert code == 0, err
    workers = json.loads(out)["workers"]
    program, *words = workers[-1]["command"]
    command = words[1:] if words[:1] == ["-u"] else [Path(program).name, *words]
    assert [f"{len(workers)}:", *command] == split(started)
    expected = dict(word.split("=", 1) for word in " ".join(variables).split())
    seen = {**os.environ, **workers[-1]["env"]}
    assert {name: seen.get(name) for name in expected} == expected


@pytest.mark.parametrize(("line", "named"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_is_refused_is_named_before_anything_starts(dry_run, line, named):
    code, _, err = dry_run(line)

    assert code == 2
    assert named in err
