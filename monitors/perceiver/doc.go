// Package perceiver lets a second model read along and judge what is being
// written by principles in order of rank (Cognition-of-Thought, arXiv
// 2509.23441).
//
// The model for the reader's head is a proofreader with a card in front of him.
// The card is a [Hierarchy] of principles, Safety before Altruism before Egoism
// unless the user writes another; its text is read once, and every watcher
// starts from a copy of that state. Every few tokens, or at the end of a
// sentence, the new words are appended and a short question follows, whose
// answer is read from one row of logits: how much likelier "V", violation, is
// than "R", respect. Only when that margin is over a threshold does the
// proofreader say which principle, as one sign each, with no other tokens
// allowed. Question and answer are then rewound.
//
// The perceiver has an engine to itself: the same model opened a second time, or
// a smaller one. [New] reads the card, [Perceiver.Monitor] makes a monitor for
// one request, and [Perceiver.Guidance] turns what a verdict notes into the text
// that a policy splices in.
//
// The quality of the judgement is the model's. A model of a few million weights
// cannot do it; expect to need an instruct model of some billions, with its chat
// template written into Options.Prompt and Options.Readout. The margin has no
// natural zero either: run texts that are fine through the monitor, take the
// highest score of each, and let package conformal choose the threshold for the
// share of false alarms that is acceptable. Margins of one model, prompt and
// read-out mean nothing for another.
package perceiver
