// Package runtime turns a prompt into text, one judged token at a time.
//
// The model for the reader's head is a loop in which every stage reads what
// came before and writes only its own output:
//
//	1 Forward  engine      -> raw logits, captured activations
//	2 Process  processor   -> logits (a copy; raw stays readable)
//	3 Sample   sampler     -> a candidate token (the session's own generator)
//	4 Observe  monitors    -> verdicts, before anything is committed
//	5 Decide   policy      -> one Action: commit, rewind or stop
//	6 Apply    session     -> history, text, plan, event to the Listener
//
// A [Config] describes one generation. A [Session] runs it and is the only
// writer of its sequence: drive it alone with [Session.Next] or [Session.Run].
// A [Scheduler] runs many configurations over one engine, batched together:
// [Scheduler.Submit] gives a [Stream] for each.
//
// Only the session writes, only the [Policy] decides. Text leaves when it is
// older than the hold-back window or when the policy releases it, and what has
// left is never taken back. Equal engine, seed, config and prompt give equal
// traces ([NewTracer]), and a trace replays without the engine ([Replay]).
package runtime
