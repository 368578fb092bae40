package diffusion

// Promise says what nano-diffusion must show on the probes of a task when the
// most confident cells are revealed greedily: at least Many solved in 16 steps,
// at most Few in 2 and in 4. The gap is what remasking can win back.
type Promise struct {
	Task      Task
	Few, Many float64
}

// Promises lists what the shipped weights must show.
func Promises() []Promise {
	return []Promise{
		{Latin4, 0.75, 0.9},
		{Brackets16, 0.75, 0.9},
		{Echo, 0.75, 0.9},
		{Ring, 0.75, 0.9},
	}
}
