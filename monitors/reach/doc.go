// Package reach learns how near a text is to a failure from which there may be
// no way back, and watches or filters the model by it.
//
// The model for the reader's head is a height map over hidden states. A [Model]
// holds a function V of one residual row: high where the text that is being
// written stays safe, low where it is on its way to a failure, below 0 in the
// backward reachable tube (BRT-Align, arXiv 2509.21528). It is learnt from
// recorded texts alone, and goes through five hands:
//
//	record     [NewRecorder] makes a [Tape] for each text; Tape.Monitor goes into
//	           the session's Config, Tape.Take returns the [Trajectory]. Features
//	           are seen while decoding: a function fitted on prefill states
//	           classifies well but hardly steers. [Data] keeps them, as a file too.
//	label      [LabelText], [Bisect] or margins given: how safe each prefix is.
//	targets    [Targets]: one backward sweep, RL or SAMPLE form. [Fit] calls it.
//	train      [Fit]: an MLP, or its rivals: a linear function in closed form
//	           (LiSeCo, arXiv 2405.15454) and a polytope (SAP, arXiv 2505.24445).
//	calibrate  [Model.Calibrate]: the level c that at most a share of safe texts
//	           ever falls below (package conformal); stored in the Model.
//
// A [Model] with a level becomes a monitor with [NewMonitor], which scores each
// candidate by -V, or an edit of the residual with [Model.Filter], which does
// nothing at all where V >= c. [Data.Deal] splits by prompt, so that what is
// calibrated on and measured with was not trained on.
package reach
