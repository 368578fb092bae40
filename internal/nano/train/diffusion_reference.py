"""Writes what PyTorch says with the exported weights, for the Go test of the export.

    python diffusion_reference.py --model nano-diffusion.gguf --probes probes.jsonl --out reference.jsonl

The weights are read back from the GGUF file, quantised as they are, and computed
in float32: canvases as token ids, what is filled in 16 steps, and for the first
canvases of every task the logits of every fourth row, as base64 of little-endian
float32.
"""
import argparse, base64, json
import torch
import diffusion_tokens as tokens
from diffusion_model import Bidirectional, config
from diffusion_sample import solve
from reference import weights

STRIDE = 4  # rows from one with logits to the next; must equal the Go test's


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--model", required=True)
    a.add_argument("--probes", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--count", type=int, default=10, help="canvases of each task")
    a.add_argument("--logits", type=int, default=2, help="canvases of each task with logits")
    args = a.parse_args()
    torch.set_num_threads(1)
    model = Bidirectional(config())
    model.load_state_dict(weights(args.model, config()))
    with open(args.probes) as f:
        probes = [json.loads(line) for line in f]
    with open(args.out, "w") as f, torch.no_grad():
        for task in tokens.TASKS:
            part = [p for p in probes if p["task"] == task][: args.count]
            canvas = torch.tensor([tokens.encode(task, p["puzzle"]) for p in part])
            rows = model(canvas)[: args.logits, ::STRIDE]
            answers = solve(model, canvas.clone(), 16)
            for i, p in enumerate(part):
                record = p | {"canvas": canvas[i].tolist(), "answer": tokens.decode(answers[i].tolist())}
                if i < args.logits:
                    record["logits"] = base64.b64encode(rows[i].contiguous().numpy().astype("<f4").tobytes()).decode()
                f.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
