package checker

import (
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/internal/nano/chat"
)

// shown is the judge NanoShown. The label is what the answer shows instead:
// a mode, a value of a style, "mixed" or "unknown".
func shown(r *chat.Record, text string) (yes bool, label string, err error) {
	switch r.Set {
	case "arithmetic-careful", "arithmetic-hasty":
		if r.Sum == nil {
			return false, "", errors.New(`the record has no "sum"`)
		}
		mode := chat.CheckArithmetic(*r.Sum, text).Mode
		return r.Set == "arithmetic-"+string(mode), word(string(mode)), nil
	case "safety-safe", "safety-drift", "safety":
		got := chat.CheckSafety(text)
		switch {
		case got.Drifted:
			label = "drift"
		case got.Safe:
			label = "safe"
		}
		return r.Set == "safety-drift" == got.Drifted && label != "", word(label), nil
	case "stories-happy", "stories-sad":
		e := chat.CheckStory(text)
		return r.Set == "stories-"+string(e), word(string(e)), nil
	}
	got := chat.CheckStyle(text)
	for i, a := range chat.Attributes() {
		for _, v := range []bool{true, false} {
			if r.Set != "style-"+chat.ValueName(a, v) {
				continue
			}
			if !got.Clear[i] {
				return false, "mixed", nil
			}
			return got.Style.Get(a) == v, chat.ValueName(a, got.Style.Get(a)), nil
		}
	}
	return false, "", fmt.Errorf("%s judges prompts of `trimtab data export` with a behaviour in the set's name, not of set %q; give a command as the checker", NanoShown, r.Set)
}

// word names what was not recognised.
func word(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// right is the judge NanoRight. The label tells the mode and whether the
// number is right.
func right(r *chat.Record, text string) (yes bool, label string, err error) {
	if r.Sum == nil {
		return false, "", fmt.Errorf("%s judges sums, and the prompt has no \"sum\" (set %q)", NanoRight, r.Set)
	}
	got := chat.CheckArithmetic(*r.Sum, text)
	label = word(string(got.Mode))
	switch {
	case got.Mode == chat.ModeUnknown:
	case got.Correct:
		label += ", right"
	default:
		label += ", wrong"
	}
	return got.Correct, label, nil
}
