package llamacpp

import (
	"unsafe"

	"github.com/trimtab/trimtab/steer"
)

// capture returns the sequence's buffer for a site, making it on first use.
func (s *Sequence) capture(site steer.Site) *capture {
	for i := range s.captures {
		if s.captures[i].site == site {
			return &s.captures[i]
		}
	}
	s.captures = append(s.captures, capture{site: site})
	return &s.captures[len(s.captures)-1]
}

// viaInput reports whether the output of a block can be read as the recorded
// input of the next one, without stopping the graph.
func (e *Engine) viaInput(layer int) bool {
	return layer+1 < e.info.Layers && layerInputArchs[e.info.Arch] && e.lib.setLayerInp != 0 && e.lib.getLayerInp != 0
}

// keepInput tells llama.cpp to record what a block put out. It stays on: each
// change makes llama.cpp plan its memory anew.
func (e *Engine) keepInput(layer int) {
	if e.viaInput(layer) && !e.inputs[layer+1] {
		e.inputs[layer+1] = true
		call(e.lib.setLayerInp, e.ctx, uintptr(layer+1), 1)
	}
}

// collectInputs copies recorded block inputs to the captures of the rows just
// decoded.
func (e *Engine) collectInputs() {
	width := e.info.Width
	for i := range e.jobs {
		j := &e.jobs[i]
		for k := range j.seq.captures {
			c := &j.seq.captures[k]
			if !c.on || !e.viaInput(c.site.Layer) {
				continue
			}
			base := e.frame.call(e.lib.getLayerInp, e.ctx, uintptr(c.site.Layer+1))
			all := unsafe.Slice((*float32)(pointer(base)), e.rows.n*width)
			for b := range e.rows.n {
				if int(e.rows.job[b]) == i {
					r := int(e.rows.row[b])
					copy(c.data[r*width:(r+1)*width], all[b*width:(b+1)*width])
				}
			}
		}
	}
}
