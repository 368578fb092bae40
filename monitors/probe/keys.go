package probe

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/steer"
)

// Keys of a probe file. docs/formats.md says what they mean.
const (
	keyArchitecture = "general.architecture"
	keyName         = "general.name"
	keyVersion      = "trimtab.version"
	keyModelHash    = "trimtab.model_hash"
	keyArch         = "trimtab.arch"
	keyTemplateHash = "trimtab.template_hash"
	keyDataHash     = "trimtab.data_hash"
	keyContent      = "trimtab.content_sha256"

	keyKind      = "trimtab.probe.kind"
	keyLayer     = "trimtab.probe.layer"
	keyPoint     = "trimtab.probe.point"
	keyNorm      = "trimtab.probe.norm"
	keyThreshold = "trimtab.probe.threshold"
	keySmooth    = "trimtab.probe.smooth"
	keyNegative  = "trimtab.probe.label.negative"
	keyPositive  = "trimtab.probe.label.positive"
	keyMethod    = "trimtab.probe.method"

	keyMetrics     = "trimtab.probe.metrics."     // auroc, accuracy, f1, log_loss, positives, negatives
	keyCalibration = "trimtab.probe.calibration." // method, rate, texts
)

const (
	architecture = "probe"
	ownVersion   = 1

	// maxFile is the size of a probe file in bytes: the largest function, and
	// room for the rest.
	maxFile = steer.MaxValueWeights*4 + 4<<20
)

// The names of the tensors of layer i: F32, [inputs, outputs] and [outputs].
func weightName(i int) string { return fmt.Sprintf("probe.%d.weight", i) }
func biasName(i int) string   { return fmt.Sprintf("probe.%d.bias", i) }

type textField struct {
	key   string
	value *string
}

// texts lists the fields that are kept as text, for reading and writing alike.
func (p *Probe) texts() []textField {
	return []textField{
		{keyName, &p.Name}, {keyModelHash, &p.ModelHash}, {keyArch, &p.Arch}, {keyTemplateHash, &p.TemplateHash},
		{keyDataHash, &p.DataHash}, {keySmooth, &p.Smooth}, {keyNegative, &p.Labels[0]}, {keyPositive, &p.Labels[1]},
		{keyMethod, &p.Method}, {keyCalibration + "method", p.calibrationMethod()},
	}
}

func (p *Probe) calibrationMethod() *string {
	if p.Calibration == nil {
		return new(string)
	}
	return &p.Calibration.Method
}

type numberField struct {
	key   string
	value *float64
	max   float64
}

// numbers lists the metrics that are kept as F64.
func (m *Metrics) numbers() []numberField {
	return []numberField{{"auroc", &m.AUROC, 1}, {"accuracy", &m.Accuracy, 1}, {"f1", &m.F1, 1}, {"log_loss", &m.LogLoss, math.MaxFloat64}}
}

// digest is SHA-256 over the bytes of all tensors (F32, little endian) in the
// order of the layers, weights before biases.
func digest(v *steer.Value) string {
	h := sha256.New()
	var buf []byte
	for i := range v.Layers {
		for _, list := range [][]float32{v.Layers[i].Weight, v.Layers[i].Bias} {
			buf = buf[:0]
			for _, x := range list {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
			}
			h.Write(buf)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
