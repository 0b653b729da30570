"""Probes of whole training loops: their requests are the same for every allocator."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from inside.books import stat
from inside.probe import probe
from torch.utils.checkpoint import checkpoint


def requests() -> list[int]:
    """Figures that depend on the program alone."""
    return [stat(f"requested_bytes.all.{figure}") for figure in ("peak", "allocated", "freed")] + [
        stat("allocation.all.allocated"),
        stat("num_ooms"),
    ]


def blocks(count: int = 4, width: int = 256) -> torch.nn.ModuleList:
    """Layers of a small transformer."""
    return torch.nn.ModuleList(
        torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, device="cuda") for _ in range(count)
    )


@probe()
def loop():
    layers = blocks()
    optimizer = torch.optim.AdamW(layers.parameters())
    for length in (64, 128, 96, 64):
        values = torch.zeros(4, length, 256, device="cuda")
        for layer in layers:
            values = layer(values)
        values.sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return requests()


@probe()
def activation_checkpointing():
    layers = blocks()
    for _ in range(3):
        values = torch.zeros(4, 128, 256, device="cuda", requires_grad=True)
        for layer in layers:
            values = checkpoint(layer, values, use_reentrant=False)
        values.sum().backward()
    return requests()


@probe()
def autocast_and_scaler():
    layers = blocks()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            values = torch.zeros(4, 128, 256, device="cuda")
            for layer in layers:
                values = layer(values)
        scaler.scale(values.float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return requests()


@probe()
def loader_with_pinned_memory():
    from torch.utils.data import DataLoader, TensorDataset

    layer = torch.nn.Linear(64, 64, device="cuda")
    data = TensorDataset(torch.zeros(256, 64))
    for (batch,) in DataLoader(data, batch_size=32, num_workers=2, pin_memory=True):
        layer(batch.cuda(non_blocking=True)).sum().backward()
    return requests()


@probe()
def offload_of_activations():
    layers = blocks(2)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        values = torch.zeros(4, 128, 256, device="cuda", requires_grad=True)
        for layer in layers:
            values = layer(values)
    values.sum().backward()
    return requests()


@probe()
def convolutions():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3)
    ).cuda()
    model(torch.zeros(8, 3, 64, 64, device="cuda")).sum().backward()
    return requests()


@probe()
def saved_and_loaded():
    model = torch.nn.Linear(512, 512, device="cuda")
    torch.save(model.state_dict(), "model.pt")
    model.load_state_dict(torch.load("model.pt", map_location="cuda", weights_only=True))
    return requests()


@probe(fresh=True)
def fsdp2():
    import torch.distributed as distributed
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    model = torch.nn.Sequential(*blocks())
    mesh = torch.distributed.init_device_mesh("cuda", (4,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        values = model(torch.zeros(4, 128, 256, device="cuda"))
        functional.mse_loss(values, torch.zeros_like(values)).backward()
        optimizer.step()
        optimizer.zero_grad()
    found = requests()
    distributed.destroy_process_group()
    return found


@probe(environment={"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
def trainer_of_hugging_face():
    import transformers

    config = transformers.GPT2Config(n_layer=2, n_embd=128, n_head=2, vocab_size=1000, n_positions=128)
    model = transformers.GPT2LMHeadModel(config)
    row = {"input_ids": list(range(100)), "labels": list(range(100))}
    arguments = transformers.TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        max_steps=3,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=[row] * 64)
    trainer.train()
    return requests()
