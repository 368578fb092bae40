"""Writes a checkpoint as a GGUF file that llama.cpp loads as architecture "llada".

    python diffusion_export.py --run build --out nano-diffusion.gguf --type q8_0
"""
import argparse
import gguf
import numpy as np
import diffusion_tokens as tokens
from diffusion_model import config
from export import TYPES, load, tensors


def metadata(out, c, file_type):
    out.add_name("nano-diffusion")
    out.add_description("Toy masked-diffusion model for measuring remasking; trained on generated puzzles only.")
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
    out.add_causal_attention(False)
    out.add_diffusion_shift_logits(False)


def vocabulary(out):
    kinds = [gguf.TokenType.CONTROL if t in tokens.SPECIAL else gguf.TokenType.NORMAL for t in tokens.LISTED]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens.LISTED)
    out.add_token_types(kinds)
    out.add_token_merges([f"{tokens.SPACE} {tokens.SPACE}"])
    out.add_bos_token_id(tokens.END)
    out.add_eos_token_id(tokens.END)
    out.add_pad_token_id(tokens.END)
    out.add_mask_token_id(tokens.MASK)
    out.add_add_bos_token(False)
    out.add_add_eos_token(False)
    out.add_add_space_prefix(False)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", required=True)
    a.add_argument("--out", required=True)
    a.add_argument("--type", choices=TYPES, default="q8_0")
    a.add_argument("--raw", action="store_true", help="the last weights instead of their mean")
    args = a.parse_args()
    c, (kind, file_type) = config(), TYPES[args.type]
    out = gguf.GGUFWriter(args.out, "llada")
    metadata(out, c, file_type)
    vocabulary(out)
    for name, w in tensors({n: t.float().numpy() for n, t in load(args.run, args.raw).items()}, c):
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
