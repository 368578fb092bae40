package runtime_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// model stands for a real engine, such as that of bindings/llamacpp.
func model() engine.Engine {
	e, err := enginetest.NewFake(enginetest.FakeConfig{Script: enginetest.Say(enginetest.Tokens("A small surface."), enginetest.EOS)})
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// One text, printed as it comes.
func ExampleNewSession() {
	ctx := context.Background()
	e := model()
	defer e.Close()
	prompt, err := e.Info().Tokenizer.Encode("What is a trimtab?", engine.EncodeOptions{Start: true})
	if err != nil {
		log.Fatal(err)
	}
	s, err := runtime.NewSession(ctx, runtime.Config{Engine: e, Prompt: prompt, MaxTokens: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for {
		chunk, err := s.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s", chunk.Text)
	}
	fmt.Printf("\n%s, %d tokens\n", s.Result().FinishReason, s.Result().Usage.CompletionTokens)
	// Output:
	// A small surface.
	// stop, 16 tokens
}

// Many texts over one engine.
func ExampleScheduler() {
	ctx := context.Background()
	e := model()
	defer e.Close()
	s, err := runtime.NewScheduler(e, runtime.Options{Slots: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	var streams []*runtime.Stream
	for seed := range uint64(3) {
		st, err := s.Submit(ctx, runtime.Config{Prompt: enginetest.Tokens("Hello"), MaxTokens: 7, Seed: seed})
		if err != nil {
			log.Fatal(err)
		}
		streams = append(streams, st)
	}
	for _, st := range streams {
		r, err := st.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Text, r.FinishReason)
	}
	// Output:
	// A small length
	// A small length
	// A small length
}
