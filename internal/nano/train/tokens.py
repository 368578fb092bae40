"""Turns conversations into token ids.

The vocabulary is byte-level BPE ("gpt2" in a GGUF file): every byte has a token,
digits are never merged, and four control tokens frame the turns.
"""
import json
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
END, SYSTEM, USER, ASSISTANT = range(4)
VOCAB = 768


def render(messages, generation=False):
    """The chat template; must equal TEMPLATE in export.py."""
    text = "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages)
    return text + ("<|assistant|>" if generation else "")


def conversations(path):
    with open(path) as f:
        for line in f:
            yield json.loads(line)["messages"]


def train(path, count=60000):
    """Learns the merges from the first conversations of a corpus."""
    tok = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level])
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    texts = (m["content"] for i, ms in enumerate(conversations(path)) if i < count for m in ms)
    tok.train_from_iterator(texts, trainer)
    tok.pre_tokenizer = level  # no merge holds a digit, so the plain rule gives the same tokens
    tok.decoder = decoders.ByteLevel()
    return tok


def encode(tok, path, batch=20000):
    """Returns (ids uint16, offsets int64): the corpus as one row of tokens."""
    ids, lengths, texts = [], [], []

    def flush():
        for e in tok.encode_batch(texts):
            ids.append(np.array(e.ids, dtype=np.uint16))
            lengths.append(len(e.ids))
        texts.clear()

    for ms in conversations(path):
        texts.append(render(ms))
        if len(texts) == batch:
            flush()
    flush()
    return np.concatenate(ids), np.concatenate([[0], np.cumsum(lengths)])


def weights(ids, told=0.05):
    """Loss weight of every token as a target: 1 in the assistant's turns, told in
    the others, 0 for the tokens that open a turn."""
    role = np.isin(ids, [SYSTEM, USER, ASSISTANT])
    at = np.maximum.accumulate(np.where(role, np.arange(len(ids)), 0))
    w = np.where(ids[at] == ASSISTANT, 1.0, told).astype(np.float32)
    w[role] = 0
    return w
