// Package sharpness tells, after the fact, how sharply a model's attention was
// focused when it wrote each of the last tokens (Cognition-of-Thought, arXiv
// 2509.23441). A policy that has to go back asks it where: a token that was
// written with the attention on few places is where the text took its turn.
//
// The model for the reader's head is a second look at the tape. Attention is a
// large table that an engine shows only when it computes it the slow, plain
// way, so nobody wants it for every token. A [Scorer] has an engine of its own,
// the same model opened a second time, and reads the text again when somebody
// asks: decoding itself pays nothing. What it has read before it does not read
// again, as long as the text only changed at its end.
//
// policy.Reread hands the scores to policy.Peak, the rule that the paper takes
// them for. The second look is at the model as it is: guidance that was hidden
// between the tokens and plans that steered them are not part of it.
package sharpness
