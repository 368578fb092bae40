"""Muon for the matrices inside the blocks, Adam for everything else."""
import torch


def orthogonal(g, steps=5):
    """Newton-Schulz: the nearest orthogonal matrices of a stack (Jordan et al. 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return x.mT if tall else x


class Muon:
    """Momentum whose update is made orthogonal. Matrices of one shape go as one stack."""
    def __init__(self, params, momentum=0.95, decay=0.01):
        self.groups, self.momentum, self.decay = {}, momentum, decay
        for p in params:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.state = {s: torch.zeros(len(ps), *s) for s, ps in self.groups.items()}

    @torch.no_grad()
    def step(self, lr):
        for shape, ps in self.groups.items():
            g, m = torch.stack([p.grad for p in ps]), self.state[shape]
            m.mul_(self.momentum).add_(g)
            u = orthogonal(g + self.momentum * m) * max(1, shape[0] / shape[1]) ** 0.5
            for p, d in zip(ps, u):
                p.mul_(1 - lr * self.decay).sub_(lr * d)


def split(model):
    """Returns (matrices for Muon, the rest for Adam)."""
    matrices = [p for n, p in model.named_parameters() if n.startswith("blocks") and p.ndim == 2]
    rest = [p for n, p in model.named_parameters() if not (n.startswith("blocks") and p.ndim == 2)]
    return matrices, rest
