package runtime

import (
	"errors"
	"fmt"
	goruntime "runtime"

	"github.com/trimtab/trimtab/runtime/engine"
)

// Options are the limits of a [Scheduler]. Every 0 means its default.
type Options struct {
	// Slots is how many sessions run at once. Default: Info.MaxSequences, at
	// most 16 of them, so that sequences are left for the prefix cache.
	Slots int
	// Queue is how many submissions may wait for a slot. Default 64; negative
	// for none.
	Queue int
	// BatchRows is the most rows of one Forward. Default: Info.MaxBatch.
	BatchRows int
	// PrefillRows is the most prompt rows in a Forward that also carries the
	// next token of running texts: it bounds how long a prompt can hold them
	// up. Default 128, at most BatchRows.
	PrefillRows int
	// StreamBytes is how much text may wait in a [Stream] for its reader
	// before its session pauses. Default 256 KiB.
	StreamBytes int
	// Workers is how many sessions of a batch are processed, sampled and
	// judged at once. Default: GOMAXPROCS, at most 8, where the vocabulary is
	// large enough to pay for it, else 1.
	Workers int
	// NoCache switches the prefix cache off.
	NoCache bool
	// NoSentinel lets plans run that were not proved on the engine before: see
	// [Sentinel]. The proof feeds a few rows when a plan first comes, and holds
	// up running texts for so long.
	NoSentinel bool
}

// Defaults and bounds of Options.
const (
	DefaultSlots       = 16
	DefaultQueue       = 64
	DefaultPrefillRows = 128
	DefaultStreamBytes = 256 << 10

	maxQueue   = 1 << 20
	maxWorkers = 64

	// parallelVocab is the vocabulary from which handing a session to a worker
	// (about 1 us) costs less than its pass over the logits.
	parallelVocab = 8192
)

func (o Options) filled(info *engine.Info) Options {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.Slots, min(DefaultSlots, max(info.MaxSequences, 1)))
	set(&o.Queue, DefaultQueue)
	o.Queue = max(o.Queue, 0)
	set(&o.BatchRows, info.MaxBatch)
	set(&o.BatchRows, defaultBatch)
	set(&o.PrefillRows, min(DefaultPrefillRows, max(o.BatchRows, 1)))
	set(&o.StreamBytes, DefaultStreamBytes)
	if o.Workers == 0 && info.Vocab >= parallelVocab {
		o.Workers = min(goruntime.GOMAXPROCS(0), 8)
	}
	set(&o.Workers, 1)
	return o
}

// faults checks filled Options.
func (o *Options) faults(info *engine.Info) error {
	var faults []error
	check := func(what string, n, lo, hi int) {
		if n < lo || n > hi {
			faults = append(faults, fmt.Errorf("scheduler: %s %d, must be %d to %d", what, n, lo, hi))
		}
	}
	check("slots", o.Slots, 1, info.MaxSequences)
	check("queue", o.Queue, 0, maxQueue)
	check("batch rows", o.BatchRows, 1, 1<<20)
	check("slots in a batch", o.Slots, 1, o.BatchRows)
	check("prefill rows", o.PrefillRows, 1, o.BatchRows)
	check("stream bytes", o.StreamBytes, 1, 1<<30)
	check("workers", o.Workers, 1, maxWorkers)
	return errors.Join(faults...)
}
