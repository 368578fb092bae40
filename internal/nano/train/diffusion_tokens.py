"""Turns puzzles into token ids.

Every byte is one token and nothing is ever merged ("gpt2" in a GGUF file, whose one
merge joins two spaces because the list must not be empty). Control tokens name the
task in front, end the text, and mask a cell.
"""
import json
import numpy as np
from tokenizers import pre_tokenizers

TASKS = ["latin4", "latin6", "brackets16", "brackets32", "echo", "ring"]
SPECIAL = ["<|end|>", "<|mask|>"] + [f"<|{t}|>" for t in TASKS]
END, MASK = 0, 1
BLANK = "_"
SPACE = "\u0120"  # how byte-level vocabularies spell the space


def vocabulary():
    """The list of tokens: control tokens, the bytes in the alphabet's order, two spaces."""
    return SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet()) + [SPACE + SPACE]


LISTED = vocabulary()
VOCAB = len(LISTED)
IDS = {t: i for i, t in enumerate(LISTED)}


def encode(task, text):
    """A canvas: the task's token, the cells, the end."""
    return [IDS[f"<|{task}|>"]] + [MASK if c == BLANK else IDS[c] for c in text] + [END]


def decode(ids):
    """The cells of a canvas as text; masks become blanks."""
    return "".join(BLANK if i == MASK else LISTED[i] if len(LISTED[i]) == 1 else "?" for i in ids[1:-1])


def load(path):
    """Returns for every length of canvas (solutions int64, cells that are given bool)."""
    groups = {}
    with open(path) as f:
        for line in f:
            p = json.loads(line)
            solution, canvas = encode(p["task"], p["solution"]), encode(p["task"], p["puzzle"])
            groups.setdefault(len(solution), ([], []))
            groups[len(solution)][0].append(solution)
            groups[len(solution)][1].append(canvas)
    return {n: (np.array(s, dtype=np.uint16), np.array(c, dtype=np.uint16) != MASK) for n, (s, c) in groups.items()}
