"""Writes what PyTorch says with the exported weights, for the Go test of the export.

    python reference.py --model nano-chat.gguf --run build --prompts probes.jsonl --out reference.jsonl

The weights are read back from the GGUF file, quantised as they are, and computed
in float32: prompt and greedy answer as token ids, and for the first prompts the
logits that follow the prompt, as base64 of little-endian float32.
"""
import argparse
import base64
import json
import gguf
import numpy as np
import torch
import tokens
from export import NAMES
from model import Config, Nano
from sample import generate
from tokenizers import Tokenizer


def weights(path, c):
    """The state of a Nano from a GGUF file: the inverse of export.tensors."""
    parts = {v: k for k, v in NAMES.items()}
    state = {}
    for t in gguf.GGUFReader(path).tensors:
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        if t.name == "token_embd.weight":
            name = "embed.weight"
        elif t.name == "output_norm.weight":
            name = "norm.weight"
        else:
            _, layer, part, _ = t.name.split(".")
            name = f"blocks.{layer}.{parts[part]}.weight"
            if part in ("attn_q", "attn_k"):
                w = w.reshape(c.heads, c.width // c.heads // 2, 2, c.width).swapaxes(1, 2).reshape(w.shape)
        state[name] = torch.from_numpy(np.array(w))
    return state


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--model", required=True)
    a.add_argument("--run", required=True, help="folder with tokenizer.json")
    a.add_argument("--prompts", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--count", type=int, default=50)
    a.add_argument("--logits", type=int, default=10)
    args = a.parse_args()
    torch.set_num_threads(1)
    c = Config()
    model = Nano(c)
    model.load_state_dict(weights(args.model, c))
    tok = Tokenizer.from_file(f"{args.run}/tokenizer.json")
    with open(args.prompts) as f:
        lines = [json.loads(line) for line in f]
    lines = lines[:: max(1, len(lines) // args.count)][: args.count]
    with open(args.out, "w") as f, torch.no_grad():
        for i, line in enumerate(lines):
            ids = tok.encode(tokens.render(line["messages"], True)).ids
            answer = generate(model, [ids], 110, 0, None)[0]
            record = {"messages": line["messages"], "prompt": ids, "answer": answer}
            if i % (args.count // args.logits) == 0:
                row = model(torch.tensor([ids]))[0, -1].numpy().astype("<f4")
                record["logits"] = base64.b64encode(row.tobytes()).decode()
            f.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
