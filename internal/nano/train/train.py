"""Trains nano-chat by wall clock; resumes from its checkpoint.

Two single-threaded processes that average their gradients once a step are nearly
twice as fast as one process with two threads, which meet after every operation.

    python train.py --corpus corpus.jsonl --out build --minutes 60
"""
import argparse, os, tempfile, time
import numpy as np, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tokenizers import Tokenizer
import optim, tokens
from model import Config, Nano


def arguments():
    a = argparse.ArgumentParser()
    a.add_argument("--corpus", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--minutes", type=float, default=60, help="training time over all resumed runs")
    a.add_argument("--batch", type=int, default=4096, help="tokens in a batch of one process")
    a.add_argument("--lr", type=float, default=0.02)
    a.add_argument("--adam", type=float, default=0.004)
    a.add_argument("--cooldown", type=float, default=0.35, help="last part of the time, with a falling rate")
    a.add_argument("--workers", type=int, default=2, help="single-threaded processes")
    a.add_argument("--compile", action="store_true", help="a fifth faster after two minutes; needs a C++ compiler")
    return a.parse_args()


def load(args):
    """Tokenises the corpus once and keeps the result beside the checkpoint."""
    tokenizer, cache = f"{args.out}/tokenizer.json", f"{args.out}/tokens.npz"
    if not os.path.exists(tokenizer):
        tokens.train(args.corpus).save(tokenizer)
    if not os.path.exists(cache):
        ids, offsets = tokens.encode(Tokenizer.from_file(tokenizer), args.corpus)
        np.savez(cache, ids=ids, offsets=offsets)
    z = np.load(cache)
    return z["ids"], z["offsets"]


def batches(ids, offsets, w, size, seed):
    """Yields endless (ids, weights): rows of nearly one length, shuffled by pools."""
    rng = np.random.default_rng(seed)
    while True:
        for pool in np.array_split(rng.permutation(len(offsets) - 1), max(1, (len(offsets) - 1) // 8192)):
            pool = pool[np.argsort(offsets[pool + 1] - offsets[pool], kind="stable")]
            groups, row = [], []
            for i in pool:
                n = offsets[i + 1] - offsets[i]
                if row and (len(row) + 1) * n > size:
                    groups.append(row)
                    row = []
                row.append(i)
            for k in rng.permutation(len(groups)):
                yield pack(ids, offsets, w, groups[k])


def pack(ids, offsets, w, rows):
    longest = min(512, max(offsets[i + 1] - offsets[i] for i in rows))
    x = np.zeros((len(rows), longest), dtype=np.int64)
    y = np.zeros((len(rows), longest), dtype=np.float32)
    for r, i in enumerate(rows):
        a, b = offsets[i], min(offsets[i + 1], offsets[i] + longest)
        x[r, : b - a], y[r, : b - a] = ids[a:b], w[a:b]
    return torch.from_numpy(x), torch.from_numpy(y)


def rate(done, cooldown):
    """The learning rate's factor after a part of the time."""
    return min(1, done / 0.01 + 0.05) * min(1, (1 - done) / cooldown + 0.01)


def save(path, **state):
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


class Gradients:
    """One flat vector of all gradients and a few numbers, averaged over the processes."""
    def __init__(self, params):
        self.params = [p for p in params]

    def average(self, *numbers):
        flat = torch.cat([p.grad.reshape(-1) for p in self.params] + [torch.tensor(numbers, dtype=torch.float32)])
        if dist.is_initialized():
            dist.all_reduce(flat)
            flat /= dist.get_world_size()
        at = 0
        for p in self.params:
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        return flat[at:].tolist()


def worker(rank, args, meeting):
    torch.set_num_threads(1)
    if args.workers > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=args.workers)
    torch.manual_seed(1)
    ids, offsets = load(args)
    w = tokens.weights(ids)
    model = Nano(Config())
    matrices, rest = optim.split(model)
    muon, adam = optim.Muon(matrices), torch.optim.Adam(rest, lr=args.adam, betas=(0.9, 0.98))
    mean = {n: p.detach().clone() for n, p in model.named_parameters()}  # running mean of the weights
    path, spent, step = f"{args.out}/checkpoint.pt", 0.0, 0
    if os.path.exists(path):
        s = torch.load(path)
        model.load_state_dict(s["model"]), adam.load_state_dict(s["adam"])
        muon.state, mean, spent, step = s["muon"], s["mean"], s["spent"], s["step"]
    if rank == 0:
        print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(ids)} tokens, from step {step}", flush=True)
    loss_of = torch.compile(model.loss, dynamic=True) if args.compile else model.loss
    stream = batches(ids, offsets, w, args.batch, 1000 * step + rank)
    gradients, last, saved, running = Gradients(model.parameters()), time.time(), spent, []
    while spent < args.minutes * 60:
        factor = rate(spent / args.minutes / 60, args.cooldown)
        x, y = next(stream)
        loss = loss_of(x, y)
        model.zero_grad()
        loss.backward()
        now = time.time()
        loss, seconds = gradients.average(loss.item(), now - last)
        last, spent, step = now, spent + seconds, step + 1
        muon.step(args.lr * factor)
        adam.param_groups[0]["lr"] = args.adam * factor
        adam.step()
        keep = min(0.998, step / (step + 10))
        torch._foreach_lerp_(list(mean.values()), [p.detach() for p in model.parameters()], 1 - keep)
        running.append(loss)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} {spent / 60:.2f} min loss {np.mean(running):.4f} rate {factor:.3f}", flush=True)
            running = []
        if rank == 0 and (spent - saved > 60 or spent >= args.minutes * 60):
            saved = spent
            save(path, model=model.state_dict(), mean=mean, adam=adam.state_dict(), muon=muon.state, spent=spent, step=step)


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    load(args)  # before the processes start, so that only one of them tokenises
    with tempfile.TemporaryDirectory() as d:
        if args.workers == 1:
            worker(0, args, None)
        else:
            mp.spawn(worker, (args, f"{d}/meeting"), nprocs=args.workers)


if __name__ == "__main__":
    main()
