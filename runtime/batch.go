package runtime

// build chooses what the next Forward computes: first one row of every running
// text and of its shadow, then chunks of prompts in equal shares. Every round begins with the
// next session, so that a short batch passes nobody over for long.
func (d *driver) build() {
	d.batch, d.feeds = d.batch[:0], d.feeds[:0]
	n := len(d.running)
	if n == 0 {
		return
	}
	d.cursor = (d.cursor + 1) % n
	room, texts, prompts := d.opt.BatchRows, 0, 0
	for i := range n {
		st := d.turn(i)
		st.share, st.last = 0, false
		if st.session.done || st.pause(d.opt.StreamBytes) {
			continue
		}
		rows, text := st.session.demand()
		if !text {
			st.share = -1 // a prompt, see below
			prompts++
			continue
		}
		if st.last, st.share = true, min(rows, room); st.share > 0 {
			texts++
			room -= st.share
		}
	}
	if texts > 0 {
		room = min(room, d.opt.PrefillRows)
	}
	d.split(room, prompts)
	d.collectFeeds()
}

// turn is the i-th session of this round.
func (d *driver) turn(i int) *Stream { return d.running[(d.cursor+i)%len(d.running)] }

// leastChunk keeps a crowd of prompts from being served in crumbs: then some
// wait for the next round.
const leastChunk = 16

// split shares out room among the prompts: as much for each, and what some do
// not need to the others.
func (d *driver) split(room, prompts int) {
	if prompts == 0 {
		return
	}
	each := max(room/prompts, leastChunk)
	for round := range 2 {
		for i := range d.running {
			st := d.turn(i)
			if st.share == 0 || st.last {
				continue
			}
			had := max(st.share, 0)
			most := room + had
			if round == 0 {
				most = min(room, each)
			}
			rows, _ := st.session.demand()
			st.share = min(rows, most)
			room -= st.share - had
			if st.share == 0 {
				st.share = -1
			}
		}
	}
}

// collectFeeds makes the feeds in the order of the round.
func (d *driver) collectFeeds() {
	for i := range d.running {
		st := d.turn(i)
		if st.share <= 0 {
			continue
		}
		if err := st.session.sync(); err != nil {
			st.session.broken = true
			st.session.fail(st.ctx, st.session.at(err))
			d.poke() // to let go of it, should nothing be left to compute
			continue
		}
		d.batch = append(d.batch, st)
		d.feeds = st.session.appendFeeds(d.feeds, st.share)
	}
}
