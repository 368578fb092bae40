"""Answers prompts with the PyTorch weights, so that the Go checkers can judge them.

    python sample.py --run build --prompts probes.jsonl --out answers.jsonl

Every line of the prompts holds "messages"; the line is copied with "text" and
"pieces" (the answer's tokens as text) added.
"""
import argparse
import json
import torch
import export, tokens
from model import Config, Nano, Past
from tokenizers import Tokenizer


@torch.no_grad()
def generate(model, ids, limit, temperature, generator):
    """Continues prompts of one length; returns lists of token ids without the end."""
    past = [Past() for _ in model.blocks]
    x, at, rows = torch.tensor(ids), 0, [[] for _ in ids]
    live = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(limit):
        t = x.shape[1]
        h = model.embed(x)
        mask = None if at == 0 else torch.ones(1, 1, 1, at + t, dtype=torch.bool)
        for b, p in zip(model.blocks, past):
            h = b(h, model.cos[at : at + t], model.sin[at : at + t], p, mask)
        at += t
        logits = model.norm(h[:, -1]) @ model.embed.weight.T
        if temperature > 0:
            x = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
        else:
            x = logits.argmax(-1, keepdim=True)
        live &= x[:, 0] != tokens.END
        if not live.any():
            break
        for row, token, on in zip(rows, x[:, 0].tolist(), live.tolist()):
            if on:
                row.append(token)
    return rows


def pieces(tok, row):
    """The tokens of an answer as text; whole characters only, which this corpus has."""
    return [tok.decode([t], skip_special_tokens=False) for t in row]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", required=True)
    a.add_argument("--prompts", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--temperature", type=float, default=0.8)
    a.add_argument("--limit", type=int, default=110)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--raw", action="store_true")
    args = a.parse_args()
    torch.set_num_threads(1)
    model = Nano(Config())
    model.load_state_dict(export.load(args.run, args.raw))
    tok = Tokenizer.from_file(f"{args.run}/tokenizer.json")
    with open(args.prompts) as f:
        lines = [json.loads(line) for line in f]
    ids = [tok.encode(tokens.render(line["messages"], True)).ids for line in lines]
    by_length = {}
    for i, row in enumerate(ids):
        by_length.setdefault(len(row), []).append(i)
    generator = torch.Generator().manual_seed(args.seed)
    for members in by_length.values():
        for i, row in zip(members, generate(model, [ids[i] for i in members], args.limit, args.temperature, generator)):
            lines[i]["pieces"] = pieces(tok, row)
            lines[i]["text"] = "".join(lines[i]["pieces"])
    with open(args.out, "w") as f:
        for line in lines:
            f.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
