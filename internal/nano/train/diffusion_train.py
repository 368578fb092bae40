"""Trains nano-diffusion by wall clock; resumes from its checkpoint.

The objective is LLaDA's (arXiv 2502.09992, equation 6, in its discrete form): of the
L blank cells of a puzzle l are masked, l uniform in 1..L, and the loss of each is
weighted by L/l; here divided by L, so that every puzzle counts the same.

    python diffusion_train.py --puzzles puzzles.jsonl --out build --minutes 40
"""
import argparse, os, time
import numpy as np, torch
import diffusion_tokens as tokens, optim
from diffusion_model import Bidirectional, config
from train import rate, save


def arguments():
    a = argparse.ArgumentParser()
    a.add_argument("--puzzles", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--minutes", type=float, default=40, help="training time over all resumed runs")
    a.add_argument("--batch", type=int, default=96, help="puzzles in a batch")
    a.add_argument("--lr", type=float, default=0.02)
    a.add_argument("--adam", type=float, default=0.004)
    a.add_argument("--cooldown", type=float, default=0.4, help="last part of the time, with a falling rate")
    return a.parse_args()


def corrupt(rng, solution, given):
    """Masks some of the blank cells. Returns tensors (solution, weight, canvas)."""
    blanks = (~given).sum(1)
    count = 1 + (rng.random(len(given)) * blanks).astype(int)
    order = np.where(given, 2.0, rng.random(given.shape)).argsort(1).argsort(1)
    masked = order < count[:, None]
    weight = np.where(masked, 1 / count[:, None], 0).astype(np.float32)
    canvas = np.where(masked, tokens.MASK, solution).astype(np.int64)
    return [torch.from_numpy(x) for x in (solution.astype(np.int64), weight, canvas)]


def batches(groups, size, seed):
    """Yields endless lists with one batch for every length of canvas."""
    rng = np.random.default_rng(seed)
    total = sum(len(s) for s, _ in groups.values())
    while True:
        parts = []
        for solution, given in groups.values():
            rows = rng.integers(len(solution), size=max(1, round(size * len(solution) / total)))
            parts.append(corrupt(rng, solution[rows], given[rows]))
        yield parts


def main():
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.makedirs(args.out, exist_ok=True)
    groups = tokens.load(args.puzzles)
    model = Bidirectional(config())
    matrices, rest = optim.split(model)
    muon, adam = optim.Muon(matrices), torch.optim.Adam(rest, lr=args.adam, betas=(0.9, 0.98))
    mean = {n: p.detach().clone() for n, p in model.named_parameters()}  # running mean of the weights
    path, spent, step = f"{args.out}/checkpoint.pt", 0.0, 0
    if os.path.exists(path):
        s = torch.load(path)
        model.load_state_dict(s["model"]), adam.load_state_dict(s["adam"])
        muon.state, mean, spent, step = s["muon"], s["mean"], s["spent"], s["step"]
    print(f"{sum(p.numel() for p in model.parameters())} parameters, from step {step}", flush=True)
    last, saved, running = time.time(), spent, []
    for parts in batches(groups, args.batch, 1000 + step):
        factor = rate(spent / args.minutes / 60, args.cooldown)
        model.zero_grad()
        losses = []
        for part in parts:
            loss = model.loss(*part) / args.batch
            loss.backward()
            losses.append(loss.item() * args.batch / len(part[0]))
        muon.step(args.lr * factor)
        adam.param_groups[0]["lr"] = args.adam * factor
        adam.step()
        step += 1
        keep = min(0.998, step / (step + 10))
        torch._foreach_lerp_(list(mean.values()), [p.detach() for p in model.parameters()], 1 - keep)
        now = time.time()
        spent, last = spent + now - last, now
        running.append(losses)
        done = spent >= args.minutes * 60
        if step % 100 == 0:
            each = " ".join(f"{n}:{x:.3f}" for n, x in zip(groups, np.mean(running, 0)))
            print(f"step {step} {spent / 60:.2f} min loss by length {each} rate {factor:.3f}", flush=True)
            running = []
        if spent - saved > 60 or done:
            saved = spent
            save(path, model=model.state_dict(), mean=mean, adam=adam.state_dict(), muon=muon.state, spent=spent, step=step)
        if done:
            return


if __name__ == "__main__":
    main()
