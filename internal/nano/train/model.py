"""The network: a llama-style decoder, small enough to train on two CPU cores."""
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 768
    width: int = 160
    layers: int = 6
    heads: int = 5
    ffn: int = 384
    context: int = 512
    theta: float = 10000.0
    eps: float = 1e-5


class Norm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c.width)), c.eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rotate(x, cos, sin):
    """RoPE on half-split pairs; export.py permutes q and k to llama.cpp's order."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.attn_norm, self.ffn_norm = Norm(c), Norm(c)
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.q, self.k, self.v, self.o = (linear(c.width, c.width) for _ in range(4))
        self.gate, self.up, self.down = linear(c.width, c.ffn), linear(c.width, c.ffn), linear(c.ffn, c.width)

    def forward(self, x, cos, sin, past=None, mask=None):
        b, t, d = x.shape
        h = self.attn_norm(x)
        qk = (h @ torch.cat([self.q.weight, self.k.weight]).T).view(b, t, 2 * self.heads, -1).transpose(1, 2)
        q, k = rotate(qk, cos, sin).chunk(2, 1)
        v = self.v(h).view(b, t, self.heads, -1).transpose(1, 2)
        if past is not None:
            past.append(k, v)
            k, v = past.k, past.v
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Past:
    """The keys and values of one layer."""
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)


class Nano(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = Norm(c)
        half = c.width // c.heads // 2
        freq = c.theta ** (-torch.arange(half) / half)
        angle = torch.outer(torch.arange(c.context), freq)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        nn.init.normal_(self.embed.weight, std=c.width ** -0.5)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=(m.in_features) ** -0.5)
        for b in self.blocks:  # residual branches start small
            b.o.weight.data *= 0.3
            b.down.weight.data *= 0.3

    def hidden(self, ids):
        x = self.embed(ids)
        t = ids.shape[1]
        for b in self.blocks:
            x = b(x, self.cos[:t], self.sin[:t])
        return self.norm(x)

    def forward(self, ids):
        return self.hidden(ids) @ self.embed.weight.T

    def loss(self, ids, w):
        """Weighted cross entropy of the next token, over all tokens of the batch.

        Dividing by the sum of the weights instead would make a token count less
        where answers are long, and so tilt every choice towards short answers.
        """
        h = self.hidden(ids[:, :-1]).reshape(-1, self.c.width)
        target, weight = ids[:, 1:].reshape(-1), w[:, 1:].reshape(-1)
        return (F.cross_entropy(h @ self.embed.weight.T, target, reduction="none") * weight).sum() / target.numel()
