package decode

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Params are the sampling parameters that people set, as plain data under the
// names that llama.cpp and the OpenAI API use. Start from [DefaultParams]: the
// zero value is not valid. A stage at its neutral value is left out and costs
// nothing. A Params may be shared once it is no longer written to.
type Params struct {
	// Temperature is 0 to MaxTemperature, default 0.8; 1 is neutral. At 0 the
	// best token is taken and nothing is random, save XTC.
	Temperature float32 `json:"temperature"`
	// TopK is -1 or more, default 40; 0 and -1 are neutral. See [TopK].
	TopK int `json:"top_k"`
	// TopP is 0 to 1, default 0.95; 1 is neutral. See [TopP].
	TopP float32 `json:"top_p"`
	// MinP is 0 to 1, default 0.05; 0 is neutral. See [MinP].
	MinP float32 `json:"min_p"`
	// Typical is 0 to 1, default and neutral 1. See [Typical].
	Typical float32 `json:"typical_p"`
	// TopNSigma is -1 to 100, default and neutral 0, as is everything below
	// it. See [TopNSigma].
	TopNSigma float32 `json:"top_n_sigma"`

	// Repeat is 0.01 to 100, default and neutral 1. Frequency and Presence are
	// -100 to 100, default and neutral 0. LastN is 0 to MaxWindow, default 64;
	// 0 is neutral. See [PenaltyOptions].
	Repeat    float32 `json:"repeat_penalty"`
	Frequency float32 `json:"frequency_penalty"`
	Presence  float32 `json:"presence_penalty"`
	LastN     int     `json:"repeat_last_n"`

	// DRYMultiplier is 0 to 100, default and neutral 0. DRYBase is 0 to 100,
	// default 1.75; below 1 is neutral. DRYAllowedLength and DRYLastN are 0 to
	// MaxWindow, default 2 and 64; DRYLastN 0 is neutral. DRYBreakers are at
	// most MaxBreakers texts of 1 to MaxBreakerBytes bytes, default line end,
	// colon, double quote and asterisk. See [DRYOptions].
	DRYMultiplier    float32  `json:"dry_multiplier"`
	DRYBase          float32  `json:"dry_base"`
	DRYAllowedLength int      `json:"dry_allowed_length"`
	DRYLastN         int      `json:"dry_penalty_last_n"`
	DRYBreakers      []string `json:"dry_sequence_breakers"`

	// XTCProbability is 0 to 1, default and neutral 0. XTCThreshold is 0 to 1,
	// default 0.1; above 0.5 is neutral. See [XTC].
	XTCProbability float32 `json:"xtc_probability"`
	XTCThreshold   float32 `json:"xtc_threshold"`

	// Bias is added to the logits of its tokens, within MaxBias or -Inf;
	// default none. See [Bias].
	Bias map[Token]float32 `json:"logit_bias,omitempty"`
	// Banned tokens are never sampled; Allowed, if not empty, are the only
	// ones that are. Default none.
	Banned  []Token `json:"banned_tokens,omitempty"`
	Allowed []Token `json:"allowed_tokens,omitempty"`
	// MinTokens is 0 or more, default and neutral 0: how many tokens must be
	// accepted before the answer may end.
	MinTokens int `json:"min_tokens"`

	// Seed determines every random choice, default 0.
	Seed uint64 `json:"seed"`
}

// DefaultParams returns the values that llama.cpp v0.5.0 starts with
// (common/common.h, common_params_sampling), and seed 0.
func DefaultParams() Params {
	return Params{
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Typical: 1,
		Repeat: 1, LastN: 64,
		DRYBase: 1.75, DRYAllowedLength: 2, DRYLastN: 64,
		DRYBreakers:  []string{"\n", ":", "\"", "*"},
		XTCThreshold: 0.1,
	}
}

// Validate reports all faults at once; nil when there are none. Tokens are only
// checked not to be negative, as the vocabulary is not known here.
func (p *Params) Validate() error {
	penalties, dry := p.penalties(nil), p.dry(nil, nil)
	return errors.Join(
		inRange("temperature", p.Temperature, 0, MaxTemperature),
		atLeast("top-k", p.TopK, -1),
		inRange("top-p", p.TopP, 0, 1),
		inRange("min-p", p.MinP, 0, 1),
		inRange("typical", p.Typical, 0, 1),
		inRange("top-n-sigma", p.TopNSigma, -1, 100),
		penalties.faults(),
		dry.faults(),
		checkBreakerTexts(p.DRYBreakers),
		inRange("xtc probability", p.XTCProbability, 0, 1),
		inRange("xtc threshold", p.XTCThreshold, 0, 1),
		second(NewBias(p.Bias)),
		notNegative("banned", p.Banned),
		notNegative("allowed", p.Allowed),
		atLeast("min tokens", p.MinTokens, 0),
	)
}

func second[T any](_ T, err error) error { return err }

func atLeast(what string, n, least int) error {
	if n < least {
		return fmt.Errorf("%s is %d, want %d or more", what, n, least)
	}
	return nil
}

func notNegative(what string, tokens []Token) error {
	for i, t := range tokens {
		if t < 0 {
			return fmt.Errorf("%s token %d is %d: tokens start at 0", what, i, t)
		}
	}
	return nil
}

func (p *Params) penalties(prompt []Token) PenaltyOptions {
	return PenaltyOptions{LastN: p.LastN, Repeat: p.Repeat, Frequency: p.Frequency, Presence: p.Presence, Prompt: prompt}
}

func (p *Params) dry(b *Breakers, prompt []Token) DRYOptions {
	return DRYOptions{
		Multiplier: p.DRYMultiplier, Base: p.DRYBase, AllowedLength: p.DRYAllowedLength,
		LastN: p.DRYLastN, Breakers: b, Prompt: prompt,
	}
}

// Sampler returns what reads the rows after the chain: [Greedy] at temperature
// 0, else [Categorical]. Give it a generator from [NewRand] with the Seed.
func (p *Params) Sampler() Sampler {
	if p.Temperature == 0 {
		return Greedy{}
	}
	return Categorical{}
}

// Chain builds the processors for one sequence over v, in llama.cpp's default
// order: the given first ones (grammars, plug-ins), allowed and banned tokens,
// minimum length, bias, penalties, DRY, top-n-sigma, top-k, typical, top-p,
// min-p, XTC, temperature. The prompt is what penalties and DRY look back on
// before the first accepted token. Invalid parameters, and tokens outside of
// v, are errors.
func (p *Params) Chain(v Vocab, prompt []Token, first ...Processor) (*Chain, error) {
	if err := errors.Join(p.Validate(), p.checkTokens(v)); err != nil {
		return nil, err
	}
	b := builder{procs: slices.Clone(first)}
	p.addMasks(&b, v)
	p.addPenalties(&b, v, prompt)
	p.addTruncation(&b)
	if p.Temperature != 1 {
		add[*Temperature](&b)(NewTemperature(p.Temperature))
	}
	if b.err != nil {
		return nil, b.err
	}
	return NewChain(b.procs...)
}

// builder collects processors until the first error.
type builder struct {
	procs []Processor
	err   error
}

// add returns a function that takes what a constructor returns.
func add[P Processor](b *builder) func(P, error) {
	return func(p P, err error) {
		if err != nil {
			b.err = errors.Join(b.err, err)
			return
		}
		b.procs = append(b.procs, p)
	}
}

// checkTokens reports the tokens that v does not have.
func (p *Params) checkTokens(v Vocab) error {
	faults := []error{inVocab("banned", v, p.Banned), inVocab("allowed", v, p.Allowed), inVocab("end", v, v.End)}
	for t := range p.Bias {
		faults = append(faults, inVocab("biased", v, []Token{t}))
	}
	if v.Size < 1 || v.Size > MaxVocab {
		faults = append(faults, fmt.Errorf("vocabulary of %d tokens, want 1 to %d", v.Size, MaxVocab))
	}
	return errors.Join(faults...)
}

func inVocab(what string, v Vocab, tokens []Token) error {
	for _, t := range tokens {
		if int(t) >= v.Size {
			return fmt.Errorf("%s token %d is outside the vocabulary of %d", what, t, v.Size)
		}
	}
	return nil
}

func (p *Params) addMasks(b *builder, v Vocab) {
	if len(p.Allowed) > 0 {
		set, err := NewTokenSet(v.Size, p.Allowed...)
		add[*Allow](b)(NewAllow(set), err)
	}
	if len(p.Banned) > 0 {
		set, err := NewTokenSet(v.Size, p.Banned...)
		add[*Ban](b)(NewBan(set), err)
	}
	if p.MinTokens > 0 && len(v.End) > 0 {
		add[*MinTokens](b)(NewMinTokens(p.MinTokens, v.End))
	}
	if len(p.Bias) > 0 {
		add[*Bias](b)(NewBias(p.Bias))
	}
}

func (p *Params) addPenalties(b *builder, v Vocab, prompt []Token) {
	if o := p.penalties(prompt); !o.neutral() {
		add[*Penalties](b)(NewPenalties(o))
	}
	if o := p.dry(nil, prompt); !o.neutral() {
		breakers, err := p.breakers(v)
		if err != nil {
			b.err = errors.Join(b.err, err)
			return
		}
		o.Breakers = breakers
		add[*DRY](b)(NewDRY(o))
	}
}

// breakers takes the ready ones of v when they fit.
func (p *Params) breakers(v Vocab) (*Breakers, error) {
	if v.Breakers != nil && slices.Equal(v.Breakers.texts, p.DRYBreakers) {
		return v.Breakers, nil
	}
	return NewBreakers(v, p.DRYBreakers)
}

func (p *Params) addTruncation(b *builder) {
	typical := p.Typical < 1
	xtc := p.XTCProbability > 0 && p.XTCThreshold <= 0.5
	if p.Temperature == 0 && !typical && !xtc {
		return // the others never ban the best token, and only that one stays
	}
	if p.TopNSigma > 0 {
		add[*TopNSigma](b)(NewTopNSigma(p.TopNSigma))
	}
	if p.TopK > 0 && p.TopK < math.MaxInt32 {
		add[*TopK](b)(NewTopK(p.TopK), nil)
	}
	if typical {
		add[*Typical](b)(NewTypical(p.Typical))
	}
	if p.TopP < 1 {
		add[*TopP](b)(NewTopP(p.TopP))
	}
	if p.MinP > 0 {
		add[*MinP](b)(NewMinP(p.MinP))
	}
	if xtc {
		add[*XTC](b)(NewXTC(p.XTCProbability, p.XTCThreshold, p.Seed))
	}
}
