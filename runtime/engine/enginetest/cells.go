package enginetest

// cellPool holds the cached rows of all sequences. Forks share cells, so every
// cell counts its owners. A cell is written once, when it is taken.
type cellPool struct {
	max, size int // most cells; floats in one
	used      int
	owners    []int32
	hash      []uint64
	chunks    [][]float32
	free      []int32
}

const cellsPerChunk = 64

func newCellPool(max, size int) cellPool { return cellPool{max: max, size: size} }

// room is how many cells can still be taken.
func (p *cellPool) room() int { return p.max - p.used }

// take returns a cell with one owner. The caller has checked room.
func (p *cellPool) take() int32 {
	p.used++
	if n := len(p.free); n > 0 {
		id := p.free[n-1]
		p.free = p.free[:n-1]
		p.owners[id] = 1
		return id
	}
	id := int32(len(p.owners))
	p.owners = append(p.owners, 1)
	p.hash = append(p.hash, 0)
	if int(id)/cellsPerChunk == len(p.chunks) {
		p.chunks = append(p.chunks, make([]float32, cellsPerChunk*p.size))
	}
	return id
}

func (p *cellPool) share(id int32) { p.owners[id]++ }

func (p *cellPool) drop(id int32) {
	if p.owners[id]--; p.owners[id] == 0 {
		p.used--
		p.free = append(p.free, id)
	}
}

// state is the cell's summary row of every block, one after the other.
func (p *cellPool) state(id int32) []float32 {
	at := int(id) % cellsPerChunk * p.size
	return p.chunks[int(id)/cellsPerChunk][at : at+p.size]
}
