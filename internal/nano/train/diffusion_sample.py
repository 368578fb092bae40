"""Solves probes with a checkpoint, for a look at the training.

    python diffusion_sample.py --run build --probes probes.jsonl --out answers.jsonl

Top confidence, greedy: of the masked cells the most probable ones are revealed, an
equal number in every step, and stay. The figures that count come from the Go side,
which does the same through the engine.
"""
import argparse, json
import torch
import diffusion_tokens as tokens
from diffusion_model import Bidirectional, config


def solve(model, canvas, steps):
    """Fills a stack of canvases of one length; each has the same number of masks."""
    for left in range(steps, 0, -1):
        masked = canvas == tokens.MASK
        count = -(-int(masked[0].sum()) // left)
        if count == 0:
            break
        logits = model(canvas)
        logits[..., tokens.MASK] = -torch.inf
        best, ids = logits.softmax(-1).max(-1)
        chosen = best.masked_fill(~masked, -1).topk(count, 1).indices
        canvas.scatter_(1, chosen, ids.gather(1, chosen))
    return canvas


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", required=True)
    a.add_argument("--probes", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--raw", action="store_true", help="the last weights instead of their mean")
    args = a.parse_args()
    torch.set_num_threads(1)
    state = torch.load(f"{args.run}/checkpoint.pt")
    model = Bidirectional(config())
    model.load_state_dict(state["model" if args.raw else "mean"], strict=False)
    with open(args.probes) as f:
        probes = [json.loads(line) for line in f]
    with open(args.out, "w") as f, torch.no_grad():
        for task in tokens.TASKS:
            part = [p for p in probes if p["task"] == task]
            for steps in (1, 2, 4, 8, 16) if part else ():
                filled = solve(model, torch.tensor([tokens.encode(task, p["puzzle"]) for p in part]), steps)
                for p, ids in zip(part, filled.tolist()):
                    f.write(json.dumps(p | {"steps": steps, "answer": tokens.decode(ids)}) + "\n")


if __name__ == "__main__":
    main()
