"""Learning from feedback with two models: answers are generated with a growing cache, then the policy is trained."""

import random

import torch
from models.transformer import Shape, loss_of, made, some_tokens

chance = random.Random(6)
shape = Shape(layers=10, width=2048, heads=16, key_heads=8, hidden=5632, words=32000, is_gated=True)
policy, reference = made(shape, recomputes=True), made(shape).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
for _ in range(4):
    batch, prompt, answer = chance.choice((16, 24, 32)), chance.randrange(64, 257), chance.randrange(24, 49)
    with torch.no_grad():
        logits, caches = policy.extended(some_tokens(batch, prompt), None)
        for _ in range(answer):
            logits, caches = policy.extended(logits.argmax(-1), caches)
    del logits, caches
    numbers = some_tokens(batch, prompt + answer)
    with torch.no_grad():
        expected = torch.cat([reference(part).float().log_softmax(-1) for part in numbers.split(4)])
    policy.train()
    for part, target in zip(numbers.split(8), expected.split(8), strict=True):
        found = policy(part)
        divergence = torch.nn.functional.kl_div(found.float().log_softmax(-1), target, log_target=True)
        (loss_of(found, part) + divergence).backward()
    del expected, found, divergence, target
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
