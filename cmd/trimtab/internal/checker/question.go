package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/trimtab/trimtab/internal/jsonl"
	"github.com/trimtab/trimtab/internal/nano/chat"
)

// Question is a prompt whose answers are to be judged.
type Question struct {
	ID    string
	Turns []Message // the assistant speaks next

	// Record is what a set of `trimtab data` says of the prompt; its Set is
	// empty for prompts of other origin.
	Record chat.Record
}

// maxQuestionLine bounds a line of questions, in bytes.
const maxQuestionLine = 1 << 20

// ReadQuestions reads JSON lines: {"prompt"} or {"messages"}, and optionally an
// "id" (the line's number otherwise). The sets of `trimtab data export` are of
// this form; what they hold beside the prompt is kept in Record. At most
// [MaxItems] are read; a fault names its line.
func ReadQuestions(r io.Reader) ([]Question, error) {
	in := jsonl.NewReader(r, jsonl.Limits{Line: maxQuestionLine})
	var list []Question
	seen := map[string]bool{}
	for {
		line, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("prompts: %w", err)
		}
		q, err := readQuestion(line)
		switch {
		case err == nil && len(list) == MaxItems:
			err = fmt.Errorf("the limit is %d prompts", MaxItems)
		case err == nil && seen[q.ID]:
			err = fmt.Errorf("the id %q is used twice", q.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("prompts: line %d: %w", line.Number, err)
		}
		seen[q.ID] = true
		list = append(list, q)
	}
	if len(list) == 0 {
		return nil, errors.New("prompts: it holds no prompt")
	}
	return list, nil
}

func readQuestion(line jsonl.Line) (Question, error) {
	var rec struct {
		ID     json.RawMessage `json:"id"`
		Prompt *string         `json:"prompt"`
		chat.Record
	}
	if err := line.Decode(&rec); err != nil {
		return Question{}, errors.Unwrap(err)
	}
	q := Question{ID: strconv.Itoa(line.Number), Record: rec.Record}
	if len(rec.ID) > 0 && !bytes.Equal(rec.ID, []byte("null")) {
		if json.Unmarshal(rec.ID, &q.ID) != nil {
			q.ID = string(rec.ID)
		}
	}
	switch {
	case rec.Prompt != nil && rec.Messages != nil:
		return q, errors.New(`both "prompt" and "messages" are set`)
	case rec.Prompt != nil && *rec.Prompt != "":
		q.Turns = []Message{{"user", *rec.Prompt}}
		return q, nil
	case len(rec.Messages) == 0:
		return q, errors.New(`"prompt" or "messages" is missing or empty`)
	case rec.Messages[len(rec.Messages)-1].Role != chat.User:
		return q, errors.New(`"messages" must end with the user's turn`)
	}
	for _, m := range rec.Messages {
		q.Turns = append(q.Turns, Message{string(m.Role), m.Content})
	}
	return q, nil
}

// Judge says of each answer how good it is. texts[i] answers questions[i].
type Judge func(ctx context.Context, questions []Question, texts []string) ([]Verdict, error)

// The built-in judges, for the sets of `trimtab data`.
const (
	// NanoShown scores 1 where an answer shows what the set's name says.
	NanoShown = "nano"
	// NanoRight scores 1 where the answer to a sum is right.
	NanoRight = "nano-right"
)

// JudgeOf is the built-in judge of that name, or c as a judge.
func (c *Checker) JudgeOf() Judge {
	switch c.Command {
	case NanoShown:
		return each(shown)
	case NanoRight:
		return each(right)
	}
	return func(ctx context.Context, questions []Question, texts []string) ([]Verdict, error) {
		items := make([]Item, len(questions))
		for i, q := range questions {
			items[i] = Item{ID: q.ID, Messages: q.Turns, Text: texts[i]}
			if len(q.Turns) == 1 && q.Turns[0].Role == string(chat.User) {
				items[i].Prompt, items[i].Messages = q.Turns[0].Content, nil
			}
		}
		return c.Check(ctx, items)
	}
}

// each judges one text after the other.
func each(judge func(r *chat.Record, text string) (yes bool, label string, err error)) Judge {
	return func(_ context.Context, questions []Question, texts []string) ([]Verdict, error) {
		out := make([]Verdict, len(questions))
		for i := range questions {
			q := &questions[i]
			yes, label, err := judge(&q.Record, texts[i])
			if err != nil {
				return nil, fmt.Errorf("prompt %s: %w", q.ID, err)
			}
			score := 0.0
			if yes {
				score = 1
			}
			out[i] = Verdict{ID: q.ID, Score: &score, Label: label}
		}
		return out, nil
	}
}
