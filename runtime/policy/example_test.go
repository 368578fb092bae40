package policy_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/runtime/policy"
)

// A session that may not say "fool" goes back to where the sentence began, tries
// again, and ends with a refusal when that is not enough: in place of what was
// held back, behind what had left.
func ExampleNewBacktrack() {
	eng, err := enginetest.NewFake(enginetest.FakeConfig{Script: saying("Hello. You fool.")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close()
	list, err := lexicon.Read(strings.NewReader("fool\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	words, err := list.Monitor("words")
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := policy.NewBacktrack(policy.BacktrackOptions{
		Point: policy.Beginning{}, Most: 1, Refusal: enginetest.Tokens("I will not say that."),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := runtime.NewSession(context.Background(), runtime.Config{
		Engine: eng, Prompt: enginetest.Tokens("Hi"), HoldBack: 8,
		Monitors: []monitors.Monitor{words}, Policy: back,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(context.Background())
	fmt.Println(r.Text, r.FinishReason, r.Rewinds, err)
	// Output: Hello.I will not say that. content_filter 2 <nil>
}

// saying answers with a letter of text at each place.
func saying(text string) enginetest.Script {
	return func(x enginetest.Text) decode.Token {
		if n := len(x.Tokens) - x.PromptLen; n < len(text) {
			return decode.Token(text[n])
		}
		return enginetest.EOS
	}
}
