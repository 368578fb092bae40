package randmodel

import (
	"fmt"
	"io"
	"math"

	"github.com/trimtab/trimtab/internal/gguf"
)

// Scales of the noise, in units that make the rest of the model O(1).
const (
	// logitStd is the standard deviation of the logits: wide enough that the
	// best token leads clearly, narrow enough that sampling has a choice.
	logitStd = 3
	// branchGain is how much larger the sum of all blocks' outputs is than the
	// embedding: a tied model would otherwise repeat its last token.
	branchGain = 12
	// scoreGain is the root mean square of queries and keys. Attention scores
	// then have a standard deviation of about its square: sharp, so that the
	// output depends on far tokens and not only on an average.
	scoreGain = 1.6
	// gatedRMS is the root mean square of silu(x)*y for normal x and y.
	gatedRMS = 0.6
)

// Write makes the model file at path, all or nothing. The faults of the spec
// are reported all at once.
func Write(path string, s Spec) error {
	w, err := s.writer()
	if err != nil {
		return err
	}
	return w.WriteFile(path)
}

// WriteTo writes the model to out, for callers that want no file.
func WriteTo(out io.Writer, s Spec) error {
	w, err := s.writer()
	if err != nil {
		return err
	}
	_, err = w.WriteTo(out)
	return err
}

func (s *Spec) writer() (*gguf.Writer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	v := scored
	if s.Tokenizer == BPE {
		v = byteLevel
	}
	m := &model{Spec: s, w: gguf.NewWriter(), vocab: v(s.Vocab)}
	m.metadata()
	m.tensors()
	return m.w, nil
}

type model struct {
	*Spec
	w     *gguf.Writer
	vocab *vocabulary
}

func (m *model) metadata() {
	fileType := map[gguf.TensorType]uint32{gguf.F32: 0, gguf.F16: 1, gguf.Q8_0: 7, gguf.BF16: 32}
	m.w.Set("general.architecture", m.Arch)
	m.w.Set("general.type", "model")
	m.w.Set("general.name", fmt.Sprintf("random %s %dx%d seed %d", m.Arch, m.Layers, m.Width, m.Seed))
	m.w.Set("general.file_type", fileType[m.Type])
	m.w.Set("general.quantization_version", uint32(2))
	m.number("context_length", m.Context)
	m.number("embedding_length", m.Width)
	m.number("block_count", m.Layers)
	m.number("feed_forward_length", m.FF)
	m.number("vocab_size", m.Vocab)
	m.number("attention.head_count", m.Heads)
	m.number("attention.head_count_kv", m.KVHeads)
	m.number("attention.key_length", m.HeadDim)
	m.number("attention.value_length", m.HeadDim)
	m.number("rope.dimension_count", m.HeadDim)
	base := float32(10000)
	if m.Arch != Llama {
		base = 1e6
	}
	m.w.Set(m.Arch+".rope.freq_base", base)
	m.w.Set(m.Arch+".attention.layer_norm_rms_epsilon", float32(1e-6))
	if m.Window > 0 {
		m.number("attention.sliding_window", m.Window)
	}
	m.vocab.describe(m.w, m.Spec)
}

func (m *model) number(key string, n int) { m.w.Set(m.Arch+"."+key, uint32(n)) }

func (m *model) tensors() {
	quiet := func(row int) bool { return m.vocab.quiet[row] }
	std := logitStd / math.Sqrt(float64(m.Width))
	m.matrix("token_embd.weight", m.Width, m.Vocab, std, quiet)
	if m.Untied {
		m.matrix("output.weight", m.Width, m.Vocab, std, quiet)
	}
	m.norm("output_norm.weight", m.Width, 1)
	stream := std // root mean square of the residual that enters the first block
	if m.Arch == Gemma3 {
		stream *= math.Sqrt(float64(m.Width)) // gemma scales its embeddings up
	}
	branch := stream * branchGain / math.Sqrt(float64(2*m.Layers))
	for i := range m.Layers {
		m.block(fmt.Sprintf("blk.%d.", i), branch)
	}
}

// block adds one transformer block whose attention and feed-forward halves each
// put out vectors of the given root mean square.
func (m *model) block(prefix string, branch float64) {
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	normed := m.Arch != Llama // queries and keys have norms of their own
	score := scoreGain
	if normed {
		score = 1
	}
	down, out := branch/gatedRMS, branch
	if m.Arch == Gemma3 {
		down, out = 1/gatedRMS, 1 // the norms after the branches set the level
	}
	m.norm(prefix+"attn_norm.weight", m.Width, 1)
	m.linear(prefix+"attn_q.weight", m.Width, q, score)
	m.linear(prefix+"attn_k.weight", m.Width, kv, score)
	m.linear(prefix+"attn_v.weight", m.Width, kv, 1)
	m.linear(prefix+"attn_output.weight", q, m.Width, out)
	if normed {
		m.norm(prefix+"attn_q_norm.weight", m.HeadDim, scoreGain)
		m.norm(prefix+"attn_k_norm.weight", m.HeadDim, scoreGain)
	}
	m.norm(prefix+"ffn_norm.weight", m.Width, 1)
	m.linear(prefix+"ffn_gate.weight", m.Width, m.FF, 1)
	m.linear(prefix+"ffn_up.weight", m.Width, m.FF, 1)
	m.linear(prefix+"ffn_down.weight", m.FF, m.Width, down)
	if m.Arch == Gemma3 {
		m.norm(prefix+"post_attention_norm.weight", m.Width, branch)
		m.norm(prefix+"post_ffw_norm.weight", m.Width, branch)
	}
}

// linear adds a matrix that turns inputs of root mean square 1 into outputs of
// root mean square gain.
func (m *model) linear(name string, in, out int, gain float64) {
	m.matrix(name, in, out, gain/math.Sqrt(float64(in)), nil)
}

func (m *model) matrix(name string, in, out int, std float64, quiet func(int) bool) {
	mat := &matrix{m.Type, in, out, std, quiet}
	m.w.Add(name, m.Type, []int64{int64(in), int64(out)}, func(w io.Writer) error {
		return mat.write(w, m.source(name))
	})
}

func (m *model) norm(name string, n int, level float64) {
	m.w.AddF32(name, gguf.F32, []int64{int64(n)}, gains(n, level, m.source(name)))
}
