package enginetest

import (
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func checkInfo(s *suite) {
	i := s.info
	for name, text := range map[string]string{"name": i.Name, "arch": i.Arch, "backend": i.Backend, "hash": i.Hash} {
		if text == "" {
			s.Errorf("info: %s is empty", name)
		}
	}
	if i.MaxBatch < 1 {
		s.Errorf("info: MaxBatch is %d", i.MaxBatch)
	}
	if again := s.eng.Info(); again == nil || again.Hash != i.Hash || again.Caps.Rewind != i.Caps.Rewind {
		s.Errorf("info changed between two calls")
	}
	for _, layer := range []int{-1, i.Layers, i.Layers + 1000} {
		site := steer.Site{Layer: layer}
		s.refused("capability to capture at "+site.String(), i.Caps.CanCapture(site), engine.ErrUnsupported)
		s.refused("capability to edit at "+site.String(), i.Caps.CanEdit(site, steer.Add), engine.ErrUnsupported)
	}
	s.refused("capability to capture at an unknown point", i.Caps.CanCapture(steer.Site{Point: 200}), engine.ErrUnsupported)
	s.refused("capability for an unknown operation", i.Caps.CanEdit(steer.Site{}, 200), engine.ErrUnsupported)
}

func checkTokenizer(s *suite) {
	tok := s.info.Tokenizer
	if tok == nil {
		return
	}
	sp := tok.Specials()
	for name, t := range map[string]decode.Token{"bos": sp.BOS, "eos": sp.EOS, "eot": sp.EOT, "newline": sp.Newline, "pad": sp.Pad, "mask": sp.Mask} {
		if t < -1 || int(t) >= s.info.Vocab {
			s.Errorf("tokenizer: %s is %d", name, t)
		}
	}
	for _, t := range []decode.Token{-1, decode.Token(s.info.Vocab), 1 << 30} {
		tok.Text(t)
		tok.Kind(t)
		if got := tok.AppendPiece([]byte("x"), t); string(got) != "x" {
			s.Errorf("tokenizer: token %d, which is none, prints %q", t, got[1:])
		}
	}
	checkEncode(s, tok)
}

func checkEncode(s *suite, tok engine.Tokenizer) {
	const sample = "Hello, wörld: 1 + 2 €\nnew line."
	ids, err := tok.Encode(sample, engine.EncodeOptions{})
	if err != nil {
		s.Fatalf("tokenizer: %v", err)
	}
	var text []byte
	for _, t := range ids {
		if t < 0 || int(t) >= s.info.Vocab {
			s.Fatalf("tokenizer: token %d is outside the vocabulary", t)
		}
		text = tok.AppendPiece(text, t)
	}
	// Some vocabularies put a space before the first word.
	if got := strings.TrimPrefix(string(text), " "); got != sample {
		s.Errorf("tokenizer: %q came back as %q", sample, got)
	}
	if _, err := tok.Encode("ab\xff", engine.EncodeOptions{}); err == nil {
		s.Errorf("tokenizer: invalid UTF-8 was accepted")
	}
	if ids, err := tok.Encode("", engine.EncodeOptions{}); err != nil || len(ids) != 0 {
		s.Errorf("tokenizer: no text became %v, %v", ids, err)
	}
}

// checkDenied asks for everything that Caps denies, and checks that nothing
// of it happened.
func checkDenied(s *suite) {
	seq, twin := s.sequence(), s.sequence()
	prompt := s.tokens(6)
	s.forward(engine.Feed{Seq: seq, Tokens: prompt})
	s.forward(engine.Feed{Seq: twin, Tokens: prompt})
	deniedCalls(s, seq)
	deniedSites(s, seq)
	s.length(seq, len(prompt))
	probe := s.token()
	s.forward(engine.Feed{Seq: seq, Tokens: []decode.Token{probe}})
	after := s.logits(seq, 1)
	s.forward(engine.Feed{Seq: twin, Tokens: []decode.Token{probe}})
	s.near("after calls that were denied", after, s.logits(twin, 1))
}

func deniedCalls(s *suite, seq engine.Sequence) {
	caps := &s.info.Caps
	newSeq := func(o engine.Origin) error {
		_, err := s.eng.NewSequence(s.ctx, o)
		return err
	}
	for _, c := range []struct {
		name    string
		claimed bool
		call    func() error
	}{
		{"embeddings", caps.Embeddings, func() error {
			return s.eng.Forward(s.ctx, []engine.Feed{{Seq: seq, Embeddings: make([]float32, s.info.Width)}})
		}},
		{"rewind", caps.Rewind, func() error { return seq.Rewind(1) }},
		{"fork", caps.Fork, func() error { return newSeq(engine.Origin{Fork: seq, Len: seq.Len()}) }},
		{"save", caps.Save, func() error { _, err := s.eng.Save(seq); return err }},
		{"restore", caps.Save, func() error { return newSeq(engine.Origin{Saved: []byte("saved")}) }},
	} {
		if !c.claimed {
			s.refused("denied "+c.name, c.call(), engine.ErrUnsupported)
		}
	}
}

func deniedSites(s *suite, seq engine.Sequence) {
	for layer := -1; layer <= s.info.Layers; layer++ {
		site := steer.Site{Layer: layer}
		if err := s.info.Caps.CanCapture(site); err != nil {
			s.refused("denied capture at "+site.String(), err, engine.ErrUnsupported)
			s.refused("forward with a denied capture at "+site.String(),
				s.eng.Forward(s.ctx, []engine.Feed{{Seq: seq, Tokens: s.tokens(1), Capture: []steer.Site{site}}}), engine.ErrUnsupported)
			s.deniedGate(site, seq)
		}
		for _, op := range ops {
			if err := s.info.Caps.CanEdit(site, op); err != nil && layer >= 0 && layer < s.info.Layers {
				s.refused("denied edit", err, engine.ErrUnsupported)
				plan := s.plan(steer.Intervention{Site: site, Op: op, Vector: s.noise(s.info.Width, 1), Scale: 1,
					Toward: s.noise(s.info.Width, 1), Map: s.lowRank(1), Ascent: s.ascent(steer.Linear)})
				s.refused("denied "+op.String()+" at "+site.String(), seq.Steer(plan), engine.ErrUnsupported)
			}
		}
	}
}

// deniedGate puts a gate where rows cannot be read, on an edit that could be
// made.
func (s *suite) deniedGate(site steer.Site, seq engine.Sequence) {
	for _, layer := range s.editableLayers(steer.Add) {
		if site.Layer < 0 || layer < site.Layer {
			continue
		}
		plan := s.plan(steer.Intervention{Site: steer.Site{Layer: layer}, Vector: s.noise(s.info.Width, 1), Scale: 1,
			Gate: &steer.Gate{Site: site, Vector: s.noise(s.info.Width, 1)}})
		s.refused("a gate at "+site.String(), seq.Steer(plan), engine.ErrUnsupported)
		return
	}
}

var ops = []steer.Op{steer.Add, steer.Project, steer.Clamp, steer.Replace, steer.Affine, steer.Rotate, steer.Ascend}
