"""The network of nano-diffusion: the blocks of model.py without the causal mask."""
import torch
import torch.nn.functional as F
from diffusion_tokens import VOCAB
from model import Config, Nano, rotate


def config():
    """Short canvases and short distances, hence the small theta."""
    return Config(vocab=VOCAB, width=128, layers=6, heads=4, ffn=352, context=64, theta=1000.0)


class Bidirectional(Nano):
    """Every cell sees every other."""
    def hidden(self, ids):
        x = self.embed(ids)
        t = ids.shape[1]
        free = torch.zeros(1, 1, t, t)  # an explicit mask of nothing switches the causal one off
        for b in self.blocks:
            x = b(x, self.cos[:t], self.sin[:t], mask=free)
        return self.norm(x)

    def loss(self, solution, weight, canvas):
        """Cross entropy of the cells, each weighted, summed over the batch."""
        logits = self(canvas).view(-1, self.c.vocab)
        return (F.cross_entropy(logits, solution.view(-1), reduction="none") * weight.view(-1)).sum()
