package extract

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/trimtab/trimtab/internal/jsonl"
	"github.com/trimtab/trimtab/runtime/engine"
)

// ErrPairs is wrapped by errors that other examples would mend.
var ErrPairs = errors.New("the pairs do not do")

// Bounds on what a file of pairs may hold. Texts are kept in memory, about as
// large as the file.
const (
	MaxPairs = 100_000  // most lines of one file
	maxLine  = 1 << 20  // bytes of a line
	maxTurns = 256      // messages of a prompt
	maxBytes = 64 << 20 // bytes of all texts together
)

// record is one line of a file. Data sets made by this program carry further
// fields, which say what a checker needs; they are read over.
type record struct {
	Messages []message `json:"messages"`
	Prompt   *string   `json:"prompt"`
	Chosen   *string   `json:"chosen"`
	Rejected *string   `json:"rejected"`
	ID       string    `json:"id"`
	Key      string    `json:"key"`
	Split    Split     `json:"split"`

	Set    string          `json:"set"`
	Sum    json.RawMessage `json:"sum"`
	Safety json.RawMessage `json:"safety"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ReadPairs reads JSON lines of the form
// {"prompt": "...", "chosen": "...", "rejected": "..."}, or with "messages" (a
// list of {"role", "content"}) instead of the prompt; "id", "key" and "split"
// are optional. Reading ends at the first fault, which names the line and the
// field. At most [MaxPairs] lines are read.
func ReadPairs(r io.Reader) ([]Pair, error) {
	var pairs []Pair
	err := eachRecord(r, func(rec *record) error {
		p, err := rec.pair()
		pairs = append(pairs, p)
		return err
	})
	if err == nil && len(pairs) == 0 {
		err = errors.New("it holds no pair")
	}
	if err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	return pairs, nil
}

// ReadPrompts reads JSON lines that need no answers: {"prompt"} or
// {"messages"}, as [ReadPairs] does otherwise.
func ReadPrompts(r io.Reader) ([][]engine.Message, error) {
	var prompts [][]engine.Message
	err := eachRecord(r, func(rec *record) error {
		turns, err := rec.turns()
		prompts = append(prompts, turns)
		return err
	})
	if err == nil && len(prompts) == 0 {
		err = errors.New("it holds no prompt")
	}
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	return prompts, nil
}

func eachRecord(r io.Reader, take func(*record) error) error {
	in := jsonl.NewReader(r, jsonl.Limits{Line: maxLine})
	size := 0
	for n := 0; ; n++ {
		line, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n == MaxPairs {
			return fmt.Errorf("line %d: the limit is %d records", line.Number, MaxPairs)
		}
		if size += len(line.Data); size > maxBytes {
			return fmt.Errorf("line %d: the file is over %d MiB", line.Number, maxBytes>>20)
		}
		var rec record
		if err := line.Decode(&rec); err != nil {
			return err
		}
		if err := take(&rec); err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
}

func (r *record) pair() (Pair, error) {
	turns, err := r.turns()
	switch {
	case err != nil:
		return Pair{}, err
	case r.Chosen == nil || *r.Chosen == "":
		return Pair{}, errors.New(`"chosen" is missing or empty`)
	case r.Rejected == nil || *r.Rejected == "":
		return Pair{}, errors.New(`"rejected" is missing or empty`)
	case *r.Chosen == *r.Rejected:
		return Pair{}, errors.New(`"chosen" and "rejected" are equal: they show no difference`)
	case r.Split != "" && !r.Split.known():
		return Pair{}, fmt.Errorf(`"split" is %q, must be train, validation or test`, r.Split)
	}
	return Pair{Turns: turns, Chosen: *r.Chosen, Rejected: *r.Rejected, Split: r.Split, Key: r.Key}, nil
}

func (r *record) turns() ([]engine.Message, error) {
	switch {
	case r.Prompt != nil && r.Messages != nil:
		return nil, errors.New(`both "prompt" and "messages" are set`)
	case r.Prompt != nil && *r.Prompt != "":
		return []engine.Message{{Role: "user", Content: *r.Prompt}}, nil
	case len(r.Messages) == 0:
		return nil, errors.New(`"prompt" or "messages" is missing or empty`)
	case len(r.Messages) > maxTurns:
		return nil, fmt.Errorf(`"messages" has %d turns, the limit is %d`, len(r.Messages), maxTurns)
	case r.Messages[len(r.Messages)-1].Role != "user":
		return nil, errors.New(`"messages" must end with the user's turn`)
	}
	turns := make([]engine.Message, len(r.Messages))
	for i, m := range r.Messages {
		if m.Role == "" {
			return nil, fmt.Errorf(`message %d has no "role"`, i)
		}
		turns[i] = engine.Message{Role: m.Role, Content: m.Content}
	}
	return turns, nil
}

// Split says what a pair may be used for.
type Split string

// The splits. Half of the pairs are for directions, a quarter each for choosing
// and for the final measurement.
const (
	Train      Split = "train"
	Validation Split = "validation"
	Test       Split = "test"
)

func (s Split) known() bool { return s == Train || s == Validation || s == Test }

// Splits are pairs dealt into three disjoint parts.
type Splits struct{ Train, Validation, Test []Pair }

// Deal sorts pairs into splits. If every pair names its split, that counts;
// otherwise the hash of seed and key decides, so that equal prompts never meet
// in two splits and further pairs move none of the others. A split with fewer
// than four pairs is an error.
func Deal(pairs []Pair, seed uint64) (Splits, error) {
	given := true
	for i := range pairs {
		given = given && pairs[i].Split.known()
	}
	var s Splits
	for _, p := range pairs {
		at := p.Split
		if !given {
			at = splitOf(p.key(), seed)
		}
		switch at {
		case Validation:
			s.Validation = append(s.Validation, p)
		case Test:
			s.Test = append(s.Test, p)
		default:
			s.Train = append(s.Train, p)
		}
	}
	if min(len(s.Train), len(s.Validation), len(s.Test)) < minSplit {
		return s, fmt.Errorf("%w: %d of them make %d for directions, %d for choosing and %d for the measurement; each needs at least %d: give more, 100 are a good start",
			ErrPairs, len(pairs), len(s.Train), len(s.Validation), len(s.Test), minSplit)
	}
	return s, nil
}

const minSplit = 4

func (p *Pair) key() string {
	if p.Key != "" {
		return p.Key
	}
	k := ""
	for _, m := range p.Turns {
		k += m.Role + "\x00" + m.Content + "\x00"
	}
	return k
}

func splitOf(key string, seed uint64) Split {
	switch hash(seed, key) % 4 {
	case 2:
		return Validation
	case 3:
		return Test
	}
	return Train
}

// hash mixes a seed into a text.
func hash(seed uint64, text string) uint64 {
	d := xxhash.NewWithSeed(seed)
	_, _ = d.WriteString(text) // never fails
	return d.Sum64()
}

// DataHash identifies pairs, in their order, for the vector's provenance.
func DataHash(pairs []Pair) string {
	d := xxhash.New()
	write := func(s string) {
		_, _ = d.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s)))) // never fails
		_, _ = d.WriteString(s)
	}
	for _, p := range pairs {
		for _, turns := range [][]engine.Message{p.Turns, p.ReadChosen, p.ReadRejected} {
			write("turns")
			for _, m := range turns {
				write(m.Role)
				write(m.Content)
			}
		}
		write(p.Chosen)
		write(p.Rejected)
	}
	return fmt.Sprintf("%016x", d.Sum64())
}
