"""FSDP2 on a group of eight ranks, of which this is one; the others are not there."""

import random

import torch
import torch.distributed as distributed
from models.transformer import Shape, Transformer, loss_of, some_tokens
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

chance = random.Random(9)
distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
mesh = distributed.init_device_mesh("cuda", (8,))
with torch.device("meta"):
    model = Transformer(
        Shape(layers=32, width=4096, heads=32, key_heads=8, hidden=11008, words=32000, is_gated=True), recomputes=True
    )
precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks:
    fully_shard(block, mesh=mesh, mp_policy=precision)
fully_shard(model, mesh=mesh, mp_policy=precision)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    numbers = some_tokens(2, chance.choice((1024, 1536, 2048)))
    loss_of(model(numbers), numbers).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
distributed.destroy_process_group()
