"""Writes reference.json: where each token of a text looks, by a network that is
written down here once more, in double precision.

First write the models:  go test ./bindings/llamacpp -run TestAttentionReference -models DIR
Then run:                python reference.py DIR > reference.json
It needs torch, numpy and gguf.
"""

import json
import math
import sys

import gguf
import torch

BLOCKS = 4
ROWS = [0, 1, 2, 7, 8, 9, 30, 47]
TEXT = 48


def load(path):
    reader = gguf.GGUFReader(path)
    meta = {}
    for name, field in reader.fields.items():
        if len(field.data) == 1 and len(field.types) == 1:
            value = field.parts[field.data[0]]
            meta[name] = bytes(value).decode() if field.types[0] == gguf.GGUFValueType.STRING else value[0].item()
    weights = {t.name: torch.tensor(t.data.copy(), dtype=torch.float64) for t in reader.tensors}
    arch = meta["general.architecture"]
    return arch, lambda key, otherwise=None: meta.get(arch + "." + key, otherwise), weights


def norm(x, w, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w


def turn(x, base, neighbours):
    """Rotates the pairs of x (rows, heads, width) by their position."""
    rows, _, width = x.shape
    half = width // 2
    angle = torch.arange(rows, dtype=torch.float64)[:, None, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = torch.cos(angle), torch.sin(angle)
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    a, b = a * cos - b * sin, a * sin + b * cos
    return torch.stack([a, b], -1).reshape(x.shape) if neighbours else torch.cat([a, b], -1)


def gelu(x):
    """As a CPU takes it from a table of half-precision numbers: 1e-4 of the weights hang on it."""
    y = torch.nn.functional.gelu(x.half().double(), approximate="tanh").half().double()
    return torch.where(x >= 10, x, torch.where(x <= -10, torch.zeros_like(x), y))


def attention(path, tokens):
    """The mean over heads and the last blocks of the weights: rows x rows."""
    arch, meta, w = load(path)
    gemma, eps = arch == "gemma3", meta("attention.layer_norm_rms_epsilon")
    heads, groups, width = meta("attention.head_count"), meta("attention.head_count_kv"), meta("attention.key_length")
    blocks, window, rows = meta("block_count"), meta("attention.sliding_window", 0), len(tokens)
    x = w["token_embd.weight"][tokens]
    if gemma:
        x = x * math.sqrt(x.shape[1])
    back = torch.arange(rows)[:, None] - torch.arange(rows)[None, :]
    total = torch.zeros(rows, rows, dtype=torch.float64)
    for i in range(blocks):
        p = lambda name: w[f"blk.{i}.{name}.weight"]
        local = window > 0 and i % 6 < 5
        base = 10000.0 if local else meta("rope.freq_base")
        h = norm(x, p("attn_norm"), eps)
        q, k, v = ((h @ p(n).T).reshape(rows, -1, width) for n in ("attn_q", "attn_k", "attn_v"))
        if arch != "llama":
            q, k = norm(q, p("attn_q_norm"), eps), norm(k, p("attn_k_norm"), eps)
        q, k = turn(q, base, arch == "llama"), turn(k, base, arch == "llama")
        k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
        seen = (back >= 0) & (back < window) if local else back >= 0
        score = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(width)
        a = torch.softmax(score.masked_fill(~seen, -math.inf), -1)
        if i >= blocks - BLOCKS:
            total += a.mean(0) / BLOCKS
        y = torch.einsum("hij,jhd->ihd", a, v).reshape(rows, -1) @ p("attn_output").T
        x = x + (norm(y, p("post_attention_norm"), eps) if gemma else y)
        h = norm(x, p("ffn_norm"), eps)
        gate = h @ p("ffn_gate").T
        gate = gelu(gate) if gemma else torch.nn.functional.silu(gate)
        y = (gate * (h @ p("ffn_up").T)) @ p("ffn_down").T
        x = x + (norm(y, p("post_ffw_norm"), eps) if gemma else y)
    open_ = (back >= 0) & (back < window) if window > 0 and blocks < 6 else back >= 0
    return total, open_


def sharpness(a):
    if len(a) == 1:
        return 2.0
    entropy = -sum(p * math.log(p) for p in a if p > 0)
    return max(a) + 1 - entropy / math.log(len(a))


def main():
    tokens = torch.randint(0, 384, (TEXT,), generator=torch.Generator().manual_seed(5))
    out = {}
    for name in ("llama", "qwen3", "gemma3", "gemma3-windows"):
        total, seen = attention(f"{sys.argv[1]}/{name}.gguf", tokens)
        rows = [total[t][seen[t]].tolist() for t in range(TEXT)]
        out[name] = {
            "tokens": tokens.tolist(),
            "blocks": BLOCKS,
            "weights": {str(t): [float(f"{p:.7g}") for p in rows[t]] for t in ROWS},
            "sharpness": [float(f"{sharpness(r):.8g}") for r in rows],
        }
    print(json.dumps(out).replace('}, "', '},\n"'))


main()
