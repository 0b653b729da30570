"""Trains Hugging Face's GPT-2 large in mixed precision, with an evaluation of larger batches now and then."""

import torch
import transformers

config = transformers.GPT2Config(n_layer=36, n_embd=1280, n_head=20)
with torch.device("cuda"):
    model = transformers.GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(8):
    numbers = torch.zeros(4, 768 if step % 3 else 1024, dtype=torch.long, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=numbers, labels=numbers, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 4 == 3:
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            model(input_ids=torch.zeros(16, 1024, dtype=torch.long, device="cuda"), use_cache=False)
