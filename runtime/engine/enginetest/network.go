package enginetest

import (
	"math"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// network is the made-up model. A row enters block l, is blended into the
// block's running summary of all rows so far (the fake's key-value cache), and
// leaves with a bounded function of row and summary added to it. Logits read
// the last row, plus noise seeded by a hash of everything fed, so that two
// different histories never agree by accident.
type network struct {
	seed          uint64
	width, layers int
	bias          []float32 // per token: what unscripted text avoids
	readout       []float32 // per token: how it weighs its residual entry
	decay         []float32 // per residual entry: how long the summary remembers
	scratch       []float32 // the row being computed
}

const (
	avoid      = -30 // bias of control tokens and unprintable bytes
	noiseSpan  = 3   // logit noise lies in [-noiseSpan, noiseSpan)
	inputNoise = 0.25
)

func newNetwork(cfg FakeConfig, tok engine.Tokenizer) network {
	n := network{seed: mix(cfg.Seed + 1), width: cfg.Width, layers: cfg.Layers}
	n.bias = make([]float32, cfg.Vocab)
	n.readout = make([]float32, cfg.Vocab)
	for v := range n.bias {
		n.readout[v] = 4 * unit(mix(n.seed^uint64(v)<<20)) / float32(4+cfg.Layers) // residuals grow by at most 1 a block
		if k := tok.Kind(decode.Token(v)); k&^engine.KindByte != 0 {
			n.bias[v] = avoid
		} else if k == engine.KindByte && (v < ' ' || v > '~') {
			n.bias[v] = avoid
		}
	}
	n.scratch = make([]float32, cfg.Width)
	n.decay = make([]float32, cfg.Width)
	for i := range n.decay {
		n.decay[i] = 1 - 1/float32(int(2)<<(i%8)) // remembers 2 to 256 rows
	}
	return n
}

// fingerprint identifies the weights.
func (n *network) fingerprint() uint64 {
	return mix(n.seed ^ uint64(n.width)<<40 ^ uint64(n.layers)<<20 ^ uint64(len(n.bias)))
}

// embed writes the input row of a token.
func (n *network) embed(row []float32, t int32) {
	h := mix(n.seed + uint64(uint32(t)))
	for i := range row {
		row[i] = unit(mix(h + uint64(i)))
	}
}

// history folds one input row into the hash of all rows before it.
func (n *network) history(before uint64, row []float32) uint64 {
	h := before
	for _, x := range row {
		h = (h ^ uint64(math.Float32bits(x))) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return mix(h + 1)
}

// enterRow marks an input row with its history.
func (n *network) enterRow(row []float32, h uint64) {
	for i := range row {
		row[i] += inputNoise * unit(mix(h+uint64(i)))
	}
}

// block runs block l on row in place. before and after are the block's summary
// without and with this row; before is nil for the first row.
func (n *network) block(l int, row, before, after []float32) {
	for i, x := range row {
		d := n.decay[i]
		after[i] = (1 - d) * x
		if before != nil {
			after[i] += d * before[i]
		}
	}
	shift := (2*l + 1) % n.width
	first := row[0]
	for i := range row {
		next := first
		if i+1 < n.width {
			next = row[i+1]
		}
		z := 0.7*next + 1.5*after[(i+shift)%n.width] + 0.1*float32(l)
		row[i] += z / (1 + abs(z))
	}
}

// logits writes the row's logits, boosting the scripted token if it is valid.
func (n *network) logits(dst []float32, row []float32, h uint64, scripted decode.Token) {
	j := 0
	for v := range dst {
		dst[v] = n.bias[v] + noiseSpan*unit(mix(h^uint64(v)*0xd1b54a32d192ed03)) + row[j]*n.readout[v]
		if j++; j == n.width {
			j = 0
		}
	}
	if scripted >= 0 && int(scripted) < len(dst) {
		dst[scripted] += ScriptBoost - n.bias[scripted]
	}
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// unit maps a hash to [-1, 1), on a grid that float32 holds exactly.
func unit(h uint64) float32 { return float32(int32(h>>40)-1<<23) / (1 << 23) }

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
