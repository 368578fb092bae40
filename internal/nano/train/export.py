"""Writes a checkpoint as a GGUF file that llama.cpp loads as architecture "llama".

    python export.py --run build --out nano-chat.gguf --type q8_0
"""
import argparse
import json
import gguf
import numpy as np
import torch
from model import Config
from tokens import END, SPECIAL

TEMPLATE = ("{%- for message in messages -%}{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
            "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}")

NAMES = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v",
         "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}

TYPES = {"f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
         "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0)}


def tensors(weights, c):
    """Yields (name, float32 array) under llama.cpp's names."""
    yield "token_embd.weight", weights["embed.weight"]
    yield "output_norm.weight", weights["norm.weight"]
    for name, w in weights.items():
        if name.startswith("blocks."):
            _, layer, part, _ = name.split(".")
            if part in ("q", "k"):  # half-split pairs become neighbouring pairs
                w = w.reshape(c.heads, 2, c.width // c.heads // 2, c.width).swapaxes(1, 2).reshape(w.shape)
            yield f"blk.{layer}.{NAMES[part]}.weight", w


def metadata(out, c, tokenizer, file_type):
    out.add_name("nano-chat")
    out.add_description("Toy chat model for measuring steering and monitors; trained on generated text only.")
    out.add_license("apache-2.0")
    out.add_file_type(file_type)
    out.add_context_length(c.context)
    out.add_embedding_length(c.width)
    out.add_block_count(c.layers)
    out.add_feed_forward_length(c.ffn)
    out.add_head_count(c.heads)
    out.add_head_count_kv(c.heads)
    out.add_rope_dimension_count(c.width // c.heads)
    out.add_rope_freq_base(c.theta)
    out.add_layer_norm_rms_eps(c.eps)
    out.add_vocab_size(c.vocab)
    vocabulary(out, tokenizer)


def vocabulary(out, tokenizer):
    ids = tokenizer["model"]["vocab"]
    listed = sorted(ids, key=ids.get)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(listed)
    out.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in listed])
    out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
    out.add_bos_token_id(END)
    out.add_eos_token_id(END)
    out.add_eot_token_id(END)
    out.add_pad_token_id(END)
    out.add_add_bos_token(False)
    out.add_add_eos_token(False)
    out.add_add_space_prefix(False)
    out.add_chat_template(TEMPLATE)


def load(run, raw=False):
    """The running mean of the weights, which is better than the last ones."""
    s = torch.load(f"{run}/checkpoint.pt", map_location="cpu")
    return s["model"] if raw else s["mean"]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--type", choices=TYPES, default="q8_0")
    a.add_argument("--raw", action="store_true", help="the last weights instead of their mean")
    args = a.parse_args()
    c, (kind, file_type) = Config(), TYPES[args.type]
    with open(f"{args.run}/tokenizer.json") as f:
        tokenizer = json.load(f)
    out = gguf.GGUFWriter(args.out, "llama")
    metadata(out, c, tokenizer, file_type)
    weights = {n: t.float().numpy() for n, t in load(args.run, args.raw).items()}
    for name, w in tensors(weights, c):
        if w.ndim == 1:
            out.add_tensor(name, np.ascontiguousarray(w, dtype=np.float32))
        else:
            out.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(w), kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
