"""Hugging Face's Trainer with accumulated gradients, recomputed activations and rows of varying length."""

import os
import random

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

chance = random.Random(5)
lengths = [chance.randrange(100, 1025) for _ in range(64)]
rows = [{"input_ids": [1] * length, "attention_mask": [1] * length, "labels": [1] * length} for length in lengths]


def collated(batch: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Fills the rows of a batch up to the longest."""
    longest = max(len(row["input_ids"]) for row in batch)
    return {name: torch.tensor([row[name] + [0] * (longest - len(row[name])) for row in batch]) for name in batch[0]}


config = transformers.LlamaConfig(
    hidden_size=2048,
    intermediate_size=5632,
    num_hidden_layers=22,
    num_attention_heads=32,
    num_key_value_heads=4,
    vocab_size=32000,
    attn_implementation="sdpa",
)
with torch.device("cuda"):
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
arguments = transformers.TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    gradient_checkpointing=True,
    max_steps=3,
    bf16=True,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    logging_strategy="no",
    dataloader_num_workers=2,
    dataloader_pin_memory=True,
)
transformers.Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collated).train()
