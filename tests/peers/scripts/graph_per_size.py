"""Captures a CUDA graph for each of 48 batch sizes, each with a private pool of its own.

It replays them in turns, and computes outside of them between the replays.
"""

import random

import torch
from models.transformer import Shape, made, some_tokens

chance = random.Random(9)
model = made(Shape(layers=8, width=1024, heads=16, key_heads=16, hidden=4096, words=32000)).eval()
graphs = []
with torch.inference_mode():
    for size in range(384, 0, -8):
        tokens = some_tokens(size, 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = model(tokens)
        graphs.append((graph, tokens, result))
    for _ in range(60):
        graph, tokens, result = chance.choice(graphs)
        tokens.copy_(some_tokens(*tokens.shape))
        graph.replay()
        model(some_tokens(chance.randrange(1, 9), chance.randrange(100, 1500)))
