package diffusion

// Promise says what nano-diffusion must show on the probes of a task when the
// most confident cells are revealed greedily: at least Many solved in 16 steps,
// at most Few in 2 and in 4. The gap is what remasking can win back.
type Promise struct {
	Task      Task
	Few, Many float64
}

// Promises lists what the shipped weights must show. Latin6 and Brackets32 are not
// among them: 16 steps reveal two of their cells at a time, and the model stays
// below 0.9 (docs/results/nano-diffusion.md).
func Promises() []Promise {
	return []Promise{
		{Latin4, 0.84, 0.99},
		{Brackets16, 0.2, 0.93},
		{Echo, 0.5, 0.97},
		{Ring, 0.7, 0.95},
	}
}
