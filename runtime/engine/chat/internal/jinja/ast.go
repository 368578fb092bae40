package jinja

// expr is an expression of the syntax tree. eval must be reached through
// state.eval, which counts and puts the line on errors.
type expr interface {
	pos() int
	eval(st *state, sc *scope) (any, error)
}

// stmt is a statement of the syntax tree; state.exec runs it.
type stmt interface {
	pos() int
	exec(st *state, sc *scope, out *output) (flow, error)
}

// flow says how a statement ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

type node struct{ line int }

func (n node) pos() int { return n.line }

type (
	literal struct {
		node
		val any
	}
	name struct {
		node
		name string
	}
	listExpr struct {
		node
		items []expr
		tuple bool
	}
	dictExpr struct {
		node
		keys, vals []expr
	}
	attrExpr struct { // x.name
		node
		x    expr
		name string
	}
	itemExpr struct { // x[key]
		node
		x, key expr
	}
	sliceExpr struct { // x[from:to:step], nil for what is missing
		node
		x, from, to, step expr
	}
	callExpr struct {
		node
		fn   expr
		args argList
	}
	filterExpr struct { // x|name(args); x is nil at the head of a filter block
		node
		x    expr
		name string
		args argList
	}
	testExpr struct { // x is name(args)
		node
		x    expr
		name string
		args argList
	}
	condExpr struct { // a if cond else b, b may be nil
		node
		cond, a, b expr
	}
	unaryExpr struct {
		node
		op string
		x  expr
	}
	binaryExpr struct {
		node
		op   string
		a, b expr
	}
	logicExpr struct { // and, or
		node
		and  bool
		a, b expr
	}
	compareExpr struct { // a < b <= c ...
		node
		first expr
		ops   []string
		rest  []expr
	}
)

// argList are the arguments of a call as written.
type argList struct {
	pos      []expr
	names    []string
	kw       []expr
	star     expr // *args
	starStar expr // **kwargs
}

type (
	dataStmt struct {
		node
		text string
	}
	printStmt struct {
		node
		x expr
	}
	ifStmt struct {
		node
		conds  []expr
		bodies [][]stmt
		orElse []stmt
	}
	forStmt struct {
		node
		target    target
		iter      expr
		cond      expr
		body      []stmt
		orElse    []stmt
		recursive bool
	}
	jumpStmt struct { // break, continue
		node
		flow flow
	}
	setStmt struct {
		node
		target target
		val    expr
	}
	setBlock struct {
		node
		target target
		filter *filterExpr // innermost x is filled by the body
		body   []stmt
	}
	macroStmt struct {
		node
		name string
		sign signature
		body []stmt
	}
	callStmt struct { // {% call(args) f() %}
		node
		sign signature
		call *callExpr
		body []stmt
	}
	filterStmt struct {
		node
		filter *filterExpr
		body   []stmt
	}
	withStmt struct {
		node
		targets []target
		vals    []expr
		body    []stmt
	}
	scopeStmt struct { // a block that only has its own names
		node
		body []stmt
	}
)

// target is what a value is assigned to: a name, a namespace attribute, or a
// tuple of targets.
type target struct {
	name  string
	attr  string // of the namespace in name
	parts []target
}

// signature are the parameters of a macro.
type signature struct {
	names    []string
	defaults []expr // aligned with names, nil where there is none
	varargs  bool   // the body reads varargs
	kwargs   bool   // the body reads kwargs
}
