package steer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// Keys of a vector file. Those under "controlvector" are llama.cpp's, those
// under "glp" the GGUF Layer Projection convention (version 1), which states
// what the directions are for; those under "trimtab" are this package's.
const (
	keyArchitecture = "general.architecture"
	keyName         = "general.name"
	keyHint         = "controlvector.model_hint"
	keyLayerCount   = "controlvector.layer_count"

	keyMode      = "glp.mode"
	keySpec      = "glp.spec_version"
	keyHook      = "glp.hook_point"
	keyDerivedAt = "glp.derived_at"
	keyAlpha     = "glp.alpha_default"
	keyRank      = "glp.rank"
	keyUnit      = "glp.orthonormal"
	keyStructure = "glp.structure"
	keyMethod    = "glp.method"
	keyLayerIDs  = "glp.layer_ids_zero_based"
	keyContent   = "glp.content_sha256"

	keyVersion      = "trimtab.version"
	keyAllContent   = "trimtab.content_sha256"
	keyBlock0       = "trimtab.direction.0"
	keyModelHash    = "trimtab.model_hash"
	keyArch         = "trimtab.arch"
	keyTemplateHash = "trimtab.template_hash"
	keyLayer        = "trimtab.layer"
	keyPosition     = "trimtab.position"
	keyDataHash     = "trimtab.data_hash"
	keyMeanNorm     = "trimtab.mean_norm"
	keyWindow       = "trimtab.window."      // from, to
	keyCalibration  = "trimtab.calibration." // dose, kl, effect, low, high, metric, pairs
)

const (
	controlVector = "controlvector"
	glpVersion    = 1
	ownVersion    = 1
	// hookPost is the only hook point served: the residual after the block.
	hookPost = "residual_stream_post_layer"
	// perStep is the structure of files for looped models, whose numbers do
	// not count blocks.
	perStep = "per-execution-step"

	directionPrefix = "direction."
	// unitTolerance is how far from 1 the norm of a projection's direction in
	// a file may be: rounding to F16 and back stays well inside.
	unitTolerance = 1e-3
	// maxText is the length of a text in a vector file, in bytes.
	maxText = 4096
	// maxVectorFile is the size of a vector file in bytes: every block at the
	// greatest width, and room for the rest.
	maxVectorFile = MaxVectorLayers*MaxVectorWidth*4 + 1<<20
)

// Digest identifies the directions: SHA-256 in hexadecimal over the bytes of
// all of them (F32, little endian) in the order of the blocks, as
// glp.content_sha256 does.
func (v *Vector) Digest() string { return digest(v.Directions, v.Layers()) }

func digest(directions map[int][]float32, layers []int) string {
	h := sha256.New()
	var buf []byte
	for _, layer := range layers {
		buf = buf[:0]
		for _, x := range directions[layer] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
		}
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// layerIDs spells block numbers as glp.layer_ids_zero_based does.
func layerIDs(layers []int) string {
	b := []byte{}
	for i, layer := range layers {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, layer)
	}
	return string(b)
}
